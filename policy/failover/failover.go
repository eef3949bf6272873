package failover

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
)

// Options configure a failover.
type Options struct {
	// On reports whether to call the next model after a model has failed with the given error. The
	// result must depend only on the error, which may have been restored from a record. Defaults to
	// [Unavailable].
	On func(error) bool

	// HedgeAfter, if positive, enables hedging: if a model has not answered within this
	// time, the next one is called as well. The first answer is used, and the other
	// models are interrupted. Hedging makes slow answers rare but costs more, since
	// interrupted calls are charged too. By default, models are called one after the
	// other.
	HedgeAfter time.Duration

	// Retry replaces the retry configuration of each model. For example,
	// core.RetryConfig{MaxAttempts: 1} calls the next model after the first failure. If Retry is
	// nil, each model uses its own configuration.
	Retry *core.RetryConfig

	// Actor contains the options of the failover's own actor, such as actors.WithInterceptors. By
	// default, the failover has one attempt and no timeout of its own; the timeouts of the models
	// apply.
	Actor []actors.Option
}

// New returns a model that calls the given models in order. name is the name of the outer call,
// which contains the calls of the models. New panics if there are fewer than two models, if two
// models have the same name, or if an option is invalid.
//
// If the options of a request select another model of the service ([actors.ModelOptions].Model),
// this applies only to the first of the models. The others are called without that option. If all
// models fail with errors for which Options.On is true, the error is an [*Error]; errors.Is and
// errors.As find the error of each model. An error for which Options.On is false ends the call and
// is returned as it is.
func New(name string, o Options, models ...actors.LLM) actors.LLM {
	f := &failover{name: name, o: o, models: models}
	if f.o.On == nil {
		f.o.On = Unavailable
	}
	if err := f.check(); err != nil {
		panic(err.Error())
	}
	own := append([]actors.Option{actors.WithRetry(core.RetryConfig{MaxAttempts: 1}), actors.WithAttemptTimeout(core.NoTimeout)}, o.Actor...)
	return actors.NewLLM(name, f.ask, own...)
}

// Unavailable reports whether another model may succeed after a model has failed with err. It
// returns true for errors of a transient class, such as timeouts, rate limits and HTTP 5xx; if the
// service rejected the key, the account or the model name (401 to 404); if a quota or a budget is
// used up ([actors.ErrQuota], [core.ErrBudget]); and if the call failed in doubt, because of
// [core.InDoubtFail] or because a person answered that it failed ([core.ErrInDoubt]). It returns
// false for malformed requests, panics, and conditions of the model that do not hold.
func Unavailable(err error) bool {
	if errors.Is(err, actors.ErrQuota) || errors.Is(err, core.ErrBudget) || errors.Is(err, core.ErrInDoubt) {
		return true
	}
	switch code, _ := record.HTTPStatus(err); code {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound:
		return true
	}
	class := record.Classify(err)
	return class.IsTransient() && class != record.ClassCondition
}

// A failover is immutable.
type failover struct {
	name   string
	o      Options
	models []actors.LLM
}

func (f *failover) check() error {
	if len(f.models) < 2 {
		return fmt.Errorf("failover: %q has %d models; want 2 or more", f.name, len(f.models))
	}
	seen := make(map[string]bool)
	for i, m := range f.models {
		switch name := m.Name(); {
		case name == "":
			return fmt.Errorf("failover: model %d of %q is the zero LLM", i+1, f.name)
		case seen[name]:
			return fmt.Errorf("failover: %q has two models named %q; names must be unique", f.name, name)
		default:
			seen[name] = true
		}
	}
	if f.o.HedgeAfter < 0 {
		return fmt.Errorf("failover: Options.HedgeAfter of %q is %v; want a positive duration, or 0 for none", f.name, f.o.HedgeAfter)
	}
	if f.o.Retry != nil {
		if err := f.o.Retry.Validate(); err != nil {
			return fmt.Errorf("failover: Options.Retry of %q: %w", f.name, err)
		}
	}
	return nil
}

// ask is the handler of the model.
func (f *failover) ask(ctx context.Context, req actors.Request) (actors.Response, error) {
	show := newDisplay(live.Emitter(ctx), len(f.models))
	var (
		resp actors.Response
		i    int
		err  error
	)
	if f.o.HedgeAfter > 0 {
		resp, i, err = f.hedge(ctx, req, show)
	} else {
		resp, i, err = f.callInOrder(ctx, req, show)
	}
	if err != nil {
		return actors.Response{}, err
	}
	show.settle(i, &resp.Message)
	core.Annotate(ctx, "answered_by", f.models[i].Name())
	return resp, nil
}

// call calls model i.
func (f *failover) call(ctx context.Context, i int, req actors.Request, show *display) (actors.Response, error) {
	if i > 0 {
		req.Options.Model = ""
	}
	event := f.models[i].Event()
	if f.o.Retry != nil {
		event = event.WithRetry(*f.o.Retry)
	}
	resp, err := event.Execute(show.contextFor(ctx, i), req)
	if err != nil {
		show.fail(i)
	}
	return resp, err
}

// callInOrder calls the models one after the other.
func (f *failover) callInOrder(ctx context.Context, req actors.Request, show *display) (actors.Response, int, error) {
	failed := &Error{Name: f.name}
	for i := range f.models {
		resp, err := f.call(ctx, i, req, show)
		switch {
		case err == nil:
			return resp, i, nil
		case core.IsSuspension(err) || !f.o.On(err):
			return resp, i, err
		}
		failed.add(f.models[i].Name(), err)
	}
	return actors.Response{}, 0, failed
}

// An Error is the error of a failover in which all models failed.
type Error struct {
	Name   string   // name of the failover
	Models []string // names of the models called
	Errs   []error  // their errors
}

func (e *Error) add(model string, err error) {
	e.Models, e.Errs = append(e.Models, model), append(e.Errs, err)
}

// Error returns a message that lists the models with their errors.
func (e *Error) Error() string {
	texts := make([]string, len(e.Errs))
	for i, err := range e.Errs {
		texts[i] = fmt.Sprintf("%s: %v", e.Models[i], err)
	}
	return fmt.Sprintf("failover: all models of %q failed: %s", e.Name, strings.Join(texts, "; "))
}

// Unwrap returns the errors of the models.
func (e *Error) Unwrap() []error { return e.Errs }

// Make errors.As find an *Error in recorded errors too.
func init() { record.RegisterErrorType[*Error]("failover.Error") }
