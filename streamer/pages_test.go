package streamer_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer"
)

// TestInvalidRequestsAreRefusedWithAText sends invalid parameters, incomplete answers, and requests
// for runs that the sender is not allowed to see.
func TestInvalidRequestsAreRefusedWithAText(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{Control: &control{}, Authorize: func(r *http.Request) (streamer.Access, error) {
		if r.Header.Get("Mine") == "" {
			return streamer.Access{Control: true}, nil
		}
		return streamer.Access{Control: true, Runs: isMine}, nil
	}})
	feed := newFeed("r", h.Publish)
	feed.open()
	many := strings.Repeat(`{"run_id":"r","question":"q"},`, 1001)
	for _, c := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"GET", "/api/runs/r/records?before=0", "", 400, `before is "0": want the number of a record, 1 or more`},
		{"GET", "/api/runs/r/records?before=x", "", 400, `before is "x"`},
		{"GET", "/api/runs/r/records?before=99", "", 404, "it is 99, and the last record is"},
		{"GET", "/api/runs/r/records?limit=0", "", 400, `limit is "0": want 1 to 10000`},
		{"GET", "/api/runs/none/records", "", 404, `there is no run "none"`},
		{"GET", "/api/runs/" + strings.Repeat("y", 9000), "", 404, strings.Repeat("y", 100)},
		{"GET", "/api/runs?since=2026-01-02T15:04:05Z&until=2025-01-02T15:04:05Z", "", 400, `since is 2026-01-02T15:04:05Z and until is 2025-01-02T15:04:05Z: want since to be before until`},
		{"GET", "/api/runs?text=%ff", "", 400, `text is "\xff": want UTF-8`},
		{"GET", "/api/runs?after=x", "", 400, `after is "x": want the value of next in the previous page`},
		{"POST", "/api/questions/answer", `{"questions":"all","value":1}`, 400, "questions is a string; want an array of objects"},
		{"GET", "/api/runs/none/usage", "", 404, `there is no run "none"`},
		{"GET", "/api/runs/r?x=1", "", 400, `there is no parameter "x"; the parameters are [limit]`},
		{"GET", "/api/runs/r?limit=1&limit=2", "", 400, "limit is given 2 times: want it once"},
		{"GET", "/api/runs/r/records?until=1", "", 400, `there is no parameter "until"; the parameters are [before limit]`},
		{"GET", "/api/runs/r/usage?limit=1", "", 400, `there is no parameter "limit"; this path has no parameters`},
		{"GET", "/api/runs/r/calls/c/output?range=1", "", 400, `there is no parameter "range"; the parameters are [download]`},
		{"GET", "/api/history?class=x", "", 400, `there is no parameter "class"; this path has no parameters`},
		{"GET", "/api/work?%zz", "", 400, "cannot parse the URL's query"},
		{"GET", "/events?typ=run", "", 400, `there is no parameter "typ"; the parameters are [run type`},
		{"GET", "/events?after=1-1&after=1-2", "", 400, "after is given 2 times: want it once"},
		{"POST", "/api/runs/r/cancel?by=me", `{}`, 400, `there is no parameter "by"; this path has no parameters`},
		{"POST", "/api/runs/r/cancel", `{"by":"` + strings.Repeat("y", 5000) + `"}`, 400, "by has 5000 bytes: want at most 256"},
		{"POST", "/api/runs/r/cancel", `{"message":"` + strings.Repeat("y", 5000) + `"}`, 400, "message has 5000 bytes: want at most 4096"},
		{"POST", "/api/runs/r/answer", `{"question":"q","value":1,"by":"` + strings.Repeat("y", 5000) + `"}`, 400, "by has 5000 bytes"},
		{"POST", "/api/questions/answer", `{"questions":[{"run_id":"r","question":"q"}],"value":1,"by":"` + strings.Repeat("y", 5000) + `"}`, 400, "by has 5000 bytes"},
		{"POST", "/api/questions/answer", `{}`, 400, "questions and value are needed"},
		{"POST", "/api/questions/answer", `{"questions":[{"run_id":"r","question":"q"},{"run":"r"}],"value":1}`, 400, `unknown field "run"; the fields of questions[1] are run_id, question`},
		{"POST", "/api/questions/answer", `{"question":[],"value":[{"run":1}]}`, 400, `unknown field "question"; the fields of the body are questions, value, by`},
		{"POST", "/api/questions/answer", `{"questions":[{"run_id":"r"}],"value":1}`, 400, "question 1 needs a run_id and a question"},
		{"POST", "/api/questions/answer", `{"questions":[` + many + `{"run_id":"r","question":"q"}],"value":1}`, 400, "the request has 1002 questions; want at most 1000"},
		{"POST", "/api/questions/answer", `{"questions":[{"run_id":"r","question":"q"},{"run_id":"r","question":"q"}],"value":1}`, 400, `question "q" of run "r" is given twice`},
	} {
		status, body := request(t, c.method, server.URL+c.path, c.body, "")
		assert.Equal(t, c.status, status, c.path)
		assert.Contains(t, body, jsonText(c.text), c.path)
		assert.Less(t, len(body), 1000, c.path)
	}
	for _, path := range []string{"/?x=1", "/app.js?v=2", "/health?t=3", "/api/runs?tag="} { // these paths ignore their parameters
		status, body := request(t, "GET", server.URL+path, "", "")
		assert.Equal(t, http.StatusOK, status, path)
		assert.NotContains(t, body, `"total":0`, path)
	}
	status, _ := request(t, "GET", server.URL+"/api/history", "", "")
	assert.Equal(t, http.StatusOK, status)
	status, body := request(t, "GET", server.URL+"/api/history", "", "yes")
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, body, "you may not see all")
	_, body = request(t, "POST", server.URL+"/api/questions/answer", `{"questions":[{"run_id":"r","question":"q"}],"value":1}`, "yes")
	assert.JSONEq(t, `{"answers":[{"run_id":"r","question":"q","error":"there is no such question"}]}`, body, "the sender must not learn whether the run exists")
}

// jsonText returns the JSON encoding of a text, without the quotes.
func jsonText(text string) string {
	data, _ := json.Marshal(text)
	return string(data[1 : len(data)-1])
}

func request(t *testing.T, method, url, body, mine string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Mine", mine)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(data)
}

// TestARunIsReadBackwardsPageByPage checks that each record is on exactly one page.
func TestARunIsReadBackwardsPageByPage(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	feed := newFeed("r", h.Publish)
	feed.open()
	feed.log(40)
	var seqs []uint64
	for before := ""; ; {
		status, body := request(t, "GET", server.URL+"/api/runs/r/records?limit=7"+before, "", "")
		require.Equal(t, http.StatusOK, status, body)
		var page struct {
			Records []struct{ Seq uint64 }
			Omitted uint64
		}
		require.NoError(t, json.Unmarshal([]byte(body), &page))
		for i := len(page.Records) - 1; i >= 0; i-- {
			seqs = append(seqs, page.Records[i].Seq)
		}
		if page.Omitted == 0 {
			break
		}
		require.Equal(t, page.Records[0].Seq-1, page.Omitted)
		before = fmt.Sprintf("&before=%d", page.Records[0].Seq)
	}
	for i, seq := range seqs {
		require.EqualValues(t, len(seqs)-i, seq)
	}
	assert.Greater(t, len(seqs), 40)
}
