package serverclock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/serverclock"
)

// sleep sleeps on the fake clock of a synctest bubble.
func sleep(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // on the fake clock

func TestServerIsAskedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, ahead := 0, time.Hour
		c := serverclock.New(func(context.Context) (time.Time, error) {
			asked++
			return time.Now().Add(ahead), nil
		})
		for range 100 {
			now, err := c.Now(t.Context())
			require.NoError(t, err)
			assert.Equal(t, time.Now().Add(time.Hour).UTC(), now.UTC())
			sleep(time.Second / 2)
		}
		assert.Equal(t, 1, asked)
		sleep(time.Minute)
		ahead = -time.Hour // the server's clock is now different, as after a failover
		now, err := c.Now(t.Context())
		require.NoError(t, err)
		assert.Equal(t, time.Now().Add(-time.Hour).UTC(), now.UTC())
		assert.Equal(t, 2, asked)
	})
}

func TestClockContinuesWhileTheServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		away := errors.New("no route to host")
		err := away
		c := serverclock.New(func(context.Context) (time.Time, error) {
			asked++
			return time.Now().Add(time.Hour), err
		})
		_, got := c.Now(t.Context())
		require.ErrorIs(t, got, away)
		err = nil
		_, got = c.Now(t.Context())
		require.NoError(t, got, "a server that has never answered is asked each time")
		err = away
		sleep(time.Minute)
		for range 100 {
			now, got := c.Now(t.Context())
			require.NoError(t, got)
			assert.Equal(t, time.Now().Add(time.Hour).UTC(), now.UTC())
			sleep(time.Second)
		}
		assert.Equal(t, 2+20, asked, "each 5 seconds")
	})
}

func TestLatestIsNotBeforeTheTimeOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serverclock.New(func(context.Context) (time.Time, error) {
			sleep(time.Second)
			told := time.Now()
			sleep(2 * time.Second)
			return told, nil
		})
		_, err := c.Now(t.Context())
		require.NoError(t, err)
		sleep(time.Second)
		now, err := c.Now(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2*time.Second, time.Since(now))
		latest, err := c.Latest(t.Context())
		require.NoError(t, err)
		assert.Equal(t, -time.Second, time.Since(latest))
	})
}
