package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
)

func TestLLMsTimeOutAfterTenMinutesByDefault(t *testing.T) {
	for name, tc := range map[string]struct {
		spec core.Spec
		want time.Duration // 0 for no limit
	}{
		"an LLM":              {core.Spec{Kind: record.KindLLM}, 10 * time.Minute},
		"with retries":        {core.Spec{Kind: record.KindLLM, Retry: &core.RetryConfig{MaxAttempts: 1}}, 10 * time.Minute},
		"with its own":        {core.Spec{Kind: record.KindLLM, AttemptTimeout: time.Hour}, time.Hour},
		"with that of config": {core.Spec{Kind: record.KindLLM, Retry: &core.RetryConfig{MaxAttempts: 1, AttemptTimeout: time.Minute}}, time.Minute},
		"without any":         {core.Spec{Kind: record.KindLLM, AttemptTimeout: core.NoTimeout}, 0},
		"a tool":              {core.Spec{Kind: record.KindTool}, 0},
	} {
		testkit.Bubble(t, func(t *testing.T) {
			_, ctx := testkit.Run(t)
			tc.spec.Name = "it"
			_, err := testkit.Define(t, tc.spec, func(ctx context.Context, _ string) (string, error) {
				deadline, ok := ctx.Deadline()
				assert.Equal(t, tc.want > 0, ok, name)
				if ok {
					assert.Equal(t, tc.want, time.Until(deadline), name)
				}
				return "out", nil
			}).Event().Execute(ctx, "in")
			assert.NoError(t, err)
		})
	}
}
