package sluice

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// daemon answers checks with `answer`, and keeps what it was asked.
type daemon struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	answer interface{}
	asked  []asked
}

type asked struct {
	path string
	body map[string]interface{}
}

type object = map[string]interface{}

// allowed is a verdict with a header, and a hold if there is one.
func allowed(hold interface{}) object {
	return object{"allowed": true, "status": 200, "hold": hold,
		"hold_expires_ms": 30000, "limits": []object{},
		"headers": object{"X-RateLimit-Remaining": "1", "X-Request-Id": "r1",
			"Access-Control-Expose-Headers": "X-RateLimit-Remaining"},
		"append_headers": []string{"Access-Control-Expose-Headers"}}
}

func denied() object {
	return object{"allowed": false, "status": 429, "code": "RATE_LIMITED",
		"by": "a", "retry_after_ms": 1500, "limits": []object{},
		"headers": object{"Content-Type": "text/plain", "Retry-After": "2"},
		"body":    "slow down"}
}

func newDaemon(t *testing.T, answer interface{}) *daemon {
	t.Helper()
	d := &daemon{status: 200, answer: answer}
	d.Server = httptest.NewUnstartedServer(http.HandlerFunc(d.serve))
	t.Cleanup(func() { d.Server.Close() })
	return d
}

func (d *daemon) serve(w http.ResponseWriter, r *http.Request) {
	var body map[string]interface{}
	_ = json.NewDecoder(r.Body).Decode(&body)
	d.mu.Lock()
	d.asked = append(d.asked, asked{r.URL.Path, body})
	status, answer := d.status, d.answer
	d.mu.Unlock()
	if r.URL.Path != "/v1/check" {
		answer = object{"hold": "h", "state": "settled", "again": false}
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (d *daemon) set(status int, answer interface{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status, d.answer = status, answer
}

// got are the paths that were asked, and the last body.
func (d *daemon) got() ([]string, map[string]interface{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var paths []string
	var last map[string]interface{}
	for _, one := range d.asked {
		paths = append(paths, one.path)
		last = one.body
	}
	return paths, last
}

// start starts a daemon and makes a client. On a busy machine an answer may take
// longer than 250 ms.
func start(t *testing.T, answer interface{}) (*daemon, *Client) {
	t.Helper()
	d := newDaemon(t, answer)
	d.Start()
	return d, client(t, Options{URL: d.URL})
}

func client(t *testing.T, o Options) *Client {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func same(t *testing.T, what string, got, want interface{}) {
	t.Helper()
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("%s is %s, want %s", what, a, b)
	}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if done() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("never: %s", what)
}
