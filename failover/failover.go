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
	"github.com/reprise-go/reprise/live"
	"github.com/reprise-go/reprise/record"
)

// Options configure a failover.
type Options struct {
	// On reports whether the next model is asked after a model has failed with the
	// error. It must depend on the error alone, which may be one that was restored
	// from a record. Defaults to [Unavailable].
	On func(error) bool

	// HedgeAfter, if it is above 0, asks the next model as well when one has not
	// answered within that time, and takes the answer that comes first. The others
	// are interrupted. That makes slow answers rare, and costs: a model that is
	// interrupted is paid for all the same, so one answer may be paid twice or more.
	// Defaults to asking one model after the other.
	HedgeAfter time.Duration

	// Retry is the retry configuration of each model here, such as
	// core.RetryConfig{Disabled: true} to ask the next model at the first failure.
	// Nil leaves it to the models.
	Retry *core.RetryConfig

	// Actor are options of the failover as an actor, such as
	// actors.WithInterceptors. By default it has one attempt, and no time limit beside
	// those of the models.
	Actor []actors.Option
}

// New returns a model that asks the models in their order. The name is that of the
// call around theirs. New panics if there are fewer than two models, if two have the
// same name, or if an option is invalid.
//
// The model of a request ([actors.Options].Model) is one of the service of the first
// model: the others are asked without it. If none answers, the error is that of all of
// them, and errors.Is and errors.As find each.
func New(name string, o Options, models ...actors.LLM) actors.LLM {
	f := &failover{name: name, o: o, models: models}
	if f.o.On == nil {
		f.o.On = Unavailable
	}
	if err := f.check(); err != nil {
		panic(err.Error())
	}
	own := append([]actors.Option{actors.WithRetry(core.RetryConfig{Disabled: true}), actors.WithAttemptTimeout(core.NoTimeout)}, o.Actor...)
	return actors.NewLLM(name, "", f.ask, own...)
}

// Unavailable reports whether another model may answer where one has failed: after an
// error of a transient class, such as a timeout, a rate limit or HTTP 5xx; if its
// service refuses the key, the account or the name of the model (401 to 404); and if
// its quota or a budget is used up ([actors.ErrQuota], [core.ErrBudget]). It is false
// for a request that the model finds malformed, for panics, and for conditions of the
// model that do not hold.
func Unavailable(err error) bool {
	if errors.Is(err, actors.ErrQuota) || errors.Is(err, core.ErrBudget) {
		return true
	}
	switch code, _ := record.HTTPStatus(err); code {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound:
		return true
	}
	class := record.Classify(err)
	return class.IsTransient() && class != record.ClassCondition
}

// failover does not change once it is made.
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
			return fmt.Errorf("failover: %q has two models of the name %q; each must have its own", f.name, name)
		default:
			seen[name] = true
		}
	}
	if f.o.HedgeAfter < 0 {
		return fmt.Errorf("failover: Options.HedgeAfter of %q is %v; want more than 0, or 0 for none", f.name, f.o.HedgeAfter)
	}
	if f.o.Retry != nil {
		if err := f.o.Retry.Validate(); err != nil {
			return fmt.Errorf("failover: Options.Retry of %q: %w", f.name, err)
		}
	}
	return nil
}

// ask is the handler.
func (f *failover) ask(ctx context.Context, req actors.Request) (actors.Response, error) {
	show := newStage(live.Emitter(ctx), len(f.models))
	var (
		resp actors.Response
		i    int
		err  error
	)
	if f.o.HedgeAfter > 0 {
		resp, i, err = f.hedge(ctx, req, show)
	} else {
		resp, i, err = f.inOrder(ctx, req, show)
	}
	if err != nil {
		return actors.Response{}, err
	}
	show.settle(i, &resp.Message)
	core.Annotate(ctx, "answered_by", f.models[i].Name())
	return resp, nil
}

// call asks model i.
func (f *failover) call(ctx context.Context, i int, req actors.Request, show *stage) (actors.Response, error) {
	if i > 0 {
		req.Options.Model = ""
	}
	event := f.models[i].Event()
	if f.o.Retry != nil {
		event = event.WithRetry(*f.o.Retry)
	}
	resp, err := event.Execute(show.of(ctx, i), req)
	if err != nil {
		show.fail(i)
	}
	return resp, err
}

// inOrder asks one model after the other.
func (f *failover) inOrder(ctx context.Context, req actors.Request, show *stage) (actors.Response, int, error) {
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

// An Error says why none of the models has answered.
type Error struct {
	Name   string   // of the failover
	Models []string // that were asked
	Errs   []error  // of each
}

func (e *Error) add(model string, err error) {
	e.Models, e.Errs = append(e.Models, model), append(e.Errs, err)
}

// Error lists the models with their errors.
func (e *Error) Error() string {
	texts := make([]string, len(e.Errs))
	for i, err := range e.Errs {
		texts[i] = fmt.Sprintf("%s: %v", e.Models[i], err)
	}
	return fmt.Sprintf("failover: no model of %q has answered: %s", e.Name, strings.Join(texts, "; "))
}

// Unwrap returns the errors of the models.
func (e *Error) Unwrap() []error { return e.Errs }

// errors.As finds it in recorded errors of calls, too.
func init() { record.RegisterErrorType[*Error]("failover.Error") }
