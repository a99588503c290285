// runner -- the Go client for conformance.py, which describes what it reads and
// prints.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	sluice "sluice-client"
)

type order struct {
	URL    string
	Client struct {
		DeadlineMs int64  `json:"deadline_ms"`
		OnFailure  string `json:"on_failure"`
		Token      string
		Local      struct {
			Limit    int64
			WindowMs int64 `json:"window_ms"`
		}
	}
	Request struct {
		Call, For, Hold, Scope, ID string
		Check                      sluice.Check
		Checks                     []sluice.Check
		Cost                       sluice.Cost
		Usage                      sluice.UsageReport
		Count                      int
		AtOnce                     int `json:"at_once"`
		// webhooks
		Scheme, Secret, Body string
		Headers              map[string]string
		Now                  int64
	}
	Times    int
	Response map[string]string
}

type object map[string]interface{}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func clientOf(o *order) *sluice.Client {
	options := sluice.Options{URL: o.URL, Token: o.Client.Token,
		Timeout:    time.Duration(o.Client.DeadlineMs) * time.Millisecond,
		LocalLimit: o.Client.Local.Limit, BreakerRest: time.Hour}
	options.LocalWindow = time.Duration(o.Client.Local.WindowMs) *
		time.Millisecond
	switch o.Client.OnFailure {
	case "deny":
		options.OnFailure = sluice.Deny
	case "local":
		options.OnFailure = sluice.Local
	}
	client, err := sluice.New(options)
	must(err)
	return client
}

// orNull is null for what Go writes as an empty value.
func orNull(text string) interface{} {
	if text == "" {
		return nil
	}
	return text
}

func shown(v *sluice.Verdict) object {
	result := object{"allowed": v.Allowed, "status": v.Status,
		"code": orNull(v.Code), "by": orNull(v.By), "hold": orNull(v.Hold),
		"limit": nil, "remaining": nil, "reset_ms": nil, "retry_ms": nil,
		"wait_ms": v.Wait.Milliseconds(), "degraded": v.Degraded,
		"failure": orNull(string(v.Failure))}
	if v.Limit >= 0 {
		result["limit"], result["remaining"] = v.Limit, v.Remaining
		result["reset_ms"] = v.Reset.Milliseconds()
	}
	if v.RetryAfter > 0 {
		result["retry_ms"] = v.RetryAfter.Milliseconds()
	}
	return result
}

func oneCall(c *sluice.Client, o *order) (object, *sluice.Verdict, error) {
	ctx, r := context.Background(), &o.Request
	lifetime, _ := time.ParseDuration(r.For)
	switch r.Call {
	case "check":
		v, err := c.Check(ctx, r.Check)
		if err != nil {
			return nil, nil, err
		}
		return object{"result": shown(v)}, v, nil
	case "hold":
		v, err := c.Hold(ctx, r.Check, lifetime)
		if err != nil {
			return nil, nil, err
		}
		return object{"result": shown(v)}, nil, nil
	case "check_all":
		all := []object{}
		verdicts, err := c.CheckAll(ctx, r.Checks)
		for _, v := range verdicts {
			all = append(all, shown(v))
		}
		return object{"all": all}, nil, err
	case "settle":
		return held(c.Settle(ctx, r.Hold, r.Cost))
	case "release":
		return held(c.Release(ctx, r.Hold))
	case "extend":
		return held(c.Extend(ctx, r.Hold, lifetime))
	case "report":
		return object{"answer": object{}}, nil, c.Report(ctx, r.Usage)
	case "usage":
		usage, err := c.Usage(ctx, r.Scope, r.ID)
		if err != nil {
			return nil, nil, err
		}
		return object{"answer": usage.Raw}, nil, nil
	case "explain":
		said, err := c.Explain(ctx, r.Check)
		if err != nil {
			return nil, nil, err
		}
		return object{"answer": said.Raw}, nil, nil
	}
	panic("no call " + r.Call)
}

func held(s sluice.HoldState, err error) (object, *sluice.Verdict, error) {
	return object{"answer": object{"state": s.State, "again": s.Again}}, nil, err
}

func errorOf(err error) object {
	var e *sluice.Error
	if !errors.As(err, &e) {
		panic(err)
	}
	found := object{"status": nil, "code": orNull(e.Code),
		"detail": orNull(e.Detail), "failure": orNull(string(e.Failure))}
	if e.Status != 0 {
		found["status"] = e.Status
	}
	return found
}

// user is what middleware sends to the user, by another request of its own.
func user(o *order) object {
	client := clientOf(o)
	defer client.Close()
	check := o.Request.Check
	handler := sluice.Middleware(sluice.Rules{Client: client,
		User: func(*http.Request) string { return check.User },
		Cost: func(*http.Request) sluice.Cost { return check.Cost },
	})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range o.Response {
			w.Header().Set(name, value)
		}
		_, _ = w.Write([]byte("hello"))
	}))
	w := httptest.NewRecorder()
	for name, value := range o.Response { // middleware around ours
		w.Header().Set(name, value)
	}
	handler.ServeHTTP(w, httptest.NewRequest("POST", "/api/ai/ask", nil))
	headers := object{}
	for name, values := range w.Header() {
		headers[name] = strings.Join(values, ", ")
	}
	got := object{"headers": headers}
	if w.Body.String() != "hello" || w.Code != http.StatusOK {
		var body interface{}
		_ = json.Unmarshal(w.Body.Bytes(), &body)
		got["status"], got["body"] = w.Code, body
	}
	return got
}

func descriptors() int {
	found, err := os.ReadDir("/proc/self/fd")
	must(err)
	return len(found)
}

func many(c *sluice.Client, o *order) object {
	before, routines := descriptors(), runtime.NumGoroutine()
	counts := object{}
	var mu sync.Mutex
	var all sync.WaitGroup
	places := make(chan struct{}, o.Request.AtOnce)
	for i := 0; i < o.Request.Count; i++ {
		all.Add(1)
		places <- struct{}{}
		go func() {
			defer all.Done()
			v, err := c.Check(context.Background(), o.Request.Check)
			must(err)
			name := "verdicts"
			if v.Failure != "" {
				name = string(v.Failure)
			}
			mu.Lock()
			n, _ := counts[name].(int)
			counts[name] = n + 1
			mu.Unlock()
			<-places
		}()
	}
	all.Wait()
	c.Close()
	for end := time.Now().Add(20 * time.Second); runtime.NumGoroutine() >
		routines && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > routines {
		counts["goroutines that leak"] = n - routines
	}
	counts["before"], counts["after"] = before, descriptors()
	return object{"answer": counts}
}

func webhook(o *order) object {
	header := http.Header{}
	for name, value := range o.Request.Headers {
		header.Set(name, value)
	}
	err := sluice.Webhook{Secrets: []string{o.Request.Secret},
		Scheme: o.Request.Scheme, Now: time.Unix(o.Request.Now, 0)}.Verify(
		header, []byte(o.Request.Body))
	if err != nil && !errors.Is(err, sluice.ErrWebhook) {
		panic(err)
	}
	return object{"answer": object{"valid": err == nil}}
}

func run(o *order) object {
	if o.Request.Call == "webhook" {
		return webhook(o)
	}
	client := clientOf(o)
	defer client.Close()
	if o.Request.Call == "many" {
		return many(client, o)
	}
	var printed object
	for i := 0; i < o.Times; i++ {
		answer, _, err := oneCall(client, o)
		if err != nil {
			answer = object{"error": errorOf(err)}
		}
		printed = answer
	}
	return printed
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	print := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var o order
		must(json.Unmarshal(lines.Bytes(), &o))
		if o.Request.Call == "user" {
			must(print.Encode(object{"user": user(&o)}))
			continue
		}
		must(print.Encode(run(&o)))
	}
}
