package sluice

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var ctx = context.Background()

func TestOptions(t *testing.T) {
	for _, bad := range []Options{
		{URL: "localhost:8080"}, {URL: "ftp://a"}, {URL: "http://"},
		{URL: "http://a/path"}, {URL: "unix:"}, {Timeout: -1},
		{OnFailure: 9}, {OnFailure: Local}, {MaxConns: -1},
		{OnFailure: Local, LocalLimit: 3}, {Token: "a\r\nb"},
	} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	t.Setenv("SLUICE_DEADLINE_MS", "soon")
	if _, err := New(Options{}); err == nil {
		t.Error("SLUICE_DEADLINE_MS=soon is accepted")
	}
	t.Setenv("SLUICE_DEADLINE_MS", "700")
	t.Setenv("SLUICE_URL", "http://[::1]:99/")
	c, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the target", c.transport.where.target, "[::1]:99")
	same(t, "the time-out", c.options.Timeout, 700*time.Millisecond)
	t.Setenv("SLUICE_DEADLINE_MS", "")
	if c, _ = New(Options{}); c.options.Timeout != 250*time.Millisecond {
		t.Errorf("the default time-out is %v", c.options.Timeout)
	}
}

func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		30 * time.Second: "30s", time.Hour: "1h", 90 * time.Second: "90s",
		1500 * time.Millisecond: "1500ms", time.Microsecond: "1ms",
		48 * time.Hour: "48h", 5 * time.Minute: "5m",
	} {
		same(t, "a duration", Duration(d), want)
	}
}

func TestCosts(t *testing.T) {
	for text, want := range map[string]Cost{
		`3`: Units(3), `0`: Units(0), `{"a":1,"b":2}`: {"a": 1, "b": 2},
	} {
		var got Cost
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		same(t, text, got, want)
	}
	same(t, "a check of nothing", Check{Cost: Units(0)}, object{"cost": 0})
	same(t, "a check", Check{}, object{})
}

// A connection is used again, and one that the daemon has closed is not.
func TestConnectionsAreKept(t *testing.T) {
	d := newDaemon(t, allowed(nil))
	var opened int32
	d.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			atomic.AddInt32(&opened, 1)
		}
	}
	d.Start()
	c := client(t, Options{URL: d.URL})
	for i := 0; i < 20; i++ {
		if v, err := c.Check(ctx, Check{Path: "/"}); err != nil || v.Failure != "" {
			t.Fatal(v, err)
		}
	}
	same(t, "connections", atomic.LoadInt32(&opened), 1)
	d.CloseClientConnections()
	until(t, "the connection is closed", func() bool {
		c.transport.mu.Lock()
		defer c.transport.mu.Unlock()
		return !isQuiet(c.transport.idle[0].Conn)
	})
	v, err := c.Check(ctx, Check{Path: "/"})
	if err != nil || v.Failure != "" {
		t.Error("a closed connection was used:", v.Failure, err)
	}
	same(t, "connections", atomic.LoadInt32(&opened), 2)
}

func TestIdleConnectionsGrowOld(t *testing.T) {
	_, c := start(t, allowed(nil))
	_, _ = c.Check(ctx, Check{Path: "/"})
	old := c.transport.idle[0]
	old.since = time.Now().Add(-time.Hour)
	_, _ = c.Check(ctx, Check{Path: "/"})
	if c.transport.idle[0] == old {
		t.Error("an old connection was used")
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	d := newDaemon(t, allowed(nil))
	d.Listener.Close()
	d.Listener = listener
	d.Start()
	for _, url := range []string{"unix:" + path, "unix://" + path} {
		v, err := client(t, Options{URL: url}).Check(ctx, Check{Path: "/"})
		if err != nil || v.Failure != "" {
			t.Error(url, v, err)
		}
	}
}

func TestTLS(t *testing.T) {
	d := newDaemon(t, allowed(nil))
	d.StartTLS()
	trusted := x509.NewCertPool()
	trusted.AddCert(d.Certificate())
	c := client(t, Options{URL: d.URL, TLS: &tls.Config{RootCAs: trusted}})
	for i := 0; i < 3; i++ {
		if v, err := c.Check(ctx, Check{Path: "/"}); err != nil || v.Failure != "" {
			t.Error(v, err)
		}
	}
	same(t, "idle connections", len(c.transport.idle), 1)
	v, _ := client(t, Options{URL: d.URL}).Check(ctx, Check{Path: "/"})
	same(t, "a certificate that is not trusted", v.Failure, Unreachable)
}

func TestContext(t *testing.T) {
	wait := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) { <-wait }))
	defer server.Close()
	defer close(wait)
	c := client(t, Options{URL: server.URL})
	cancelled, cancel := context.WithCancel(ctx)
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := c.Check(cancelled, Check{Path: "/"}); !errors.Is(err,
		context.Canceled) {
		t.Error("a cancelled call is", err)
	}
	if _, err := c.Check(cancelled, Check{Path: "/"}); !errors.Is(err,
		context.Canceled) {
		t.Error("a call with a cancelled context is", err)
	}
	same(t, "failures", atomic.LoadInt32(&c.breaker.failed), 0)
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	v, err := c.Check(short, Check{Path: "/"})
	if err != nil || v.Failure != Timeout {
		t.Error("a deadline of the caller is", v, err)
	}
	same(t, "idle connections", len(c.transport.idle), 0)
}

func TestMaxConns(t *testing.T) {
	wait := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			<-wait
			_ = json.NewEncoder(w).Encode(allowed(nil))
		}))
	defer server.Close()
	c := client(t, Options{URL: server.URL, MaxConns: 1})
	first := make(chan *Verdict)
	go func() {
		v, _ := c.Check(ctx, Check{Path: "/"})
		first <- v
	}()
	until(t, "the first call has the place", func() bool {
		return len(c.transport.open) == 1
	})
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	v, err := c.Check(short, Check{Path: "/"})
	if err != nil || v.Failure != Timeout {
		t.Error("a call without a place is", v, err)
	}
	close(wait)
	same(t, "the failure of the first", (<-first).Failure, Failure(""))
}

func TestBreakerCloses(t *testing.T) {
	d, c := start(t, allowed(nil))
	c.breaker.rest = time.Millisecond
	d.set(500, object{})
	for i := 0; i < 5; i++ {
		_, _ = c.Check(ctx, Check{Path: "/"})
	}
	d.set(200, allowed(nil))
	until(t, "the breaker closes", func() bool {
		v, err := c.Check(ctx, Check{Path: "/"})
		return err == nil && v.Failure == ""
	})
	same(t, "failures", atomic.LoadInt32(&c.breaker.failed), 0)
	never := client(t, Options{URL: "http://127.0.0.1:1", BreakerFailures: -1})
	for i := 0; i < 9; i++ {
		v, _ := never.Check(ctx, Check{Path: "/"})
		same(t, "without a breaker the failure", v.Failure, Unreachable)
	}
}

func TestAllowance(t *testing.T) {
	a := newAllowance(2, time.Hour)
	for i := 0; i < mostCallers+10; i++ {
		a.take([2]string{"user", fmt.Sprint(i)}, 1)
	}
	if len(a.windows) > mostCallers || a.order.Len() != len(a.windows) {
		t.Errorf("it remembers %d callers", len(a.windows))
	}
	last := [2]string{"user", fmt.Sprint(mostCallers + 9)}
	same(t, "the second", a.take(last, 1).allowed, true)
	third := a.take(last, 1)
	if third.allowed || third.retry <= 0 || third.retry > time.Hour {
		t.Errorf("the third is %+v", third)
	}
	a = newAllowance(1, time.Nanosecond)
	a.take(last, 1)
	time.Sleep(time.Microsecond)
	same(t, "in the next window", a.take(last, 1).allowed, true)
}

func TestFailuresAreReported(t *testing.T) {
	var reported error
	c := client(t, Options{URL: "http://127.0.0.1:1",
		OnError: func(err error) { reported = err }})
	v, err := c.Check(ctx, Check{Path: "/", RequestID: "r7"})
	if err != nil || v.RequestID != "r7" {
		t.Error(v, err)
	}
	var failed *Error
	if !errors.As(reported, &failed) || failed.Failure != Unreachable ||
		errors.Unwrap(failed) == nil {
		t.Error("reported:", reported)
	}
}

func TestHoldsWithoutDaemon(t *testing.T) {
	c := client(t, Options{URL: "http://127.0.0.1:1"})
	v, err := c.Hold(ctx, Check{Path: "/"}, time.Second)
	if err != nil || !v.Allowed || v.Hold != "" {
		t.Fatal(v, err)
	}
	if _, err = c.Settle(ctx, v.Hold, Units(1)); err != nil {
		t.Error("to settle nothing:", err)
	}
}

func TestReports(t *testing.T) {
	d, c := start(t, nil)
	if err := c.Report(ctx); err != nil {
		t.Error(err)
	}
	paths, _ := d.got()
	same(t, "no report asks", len(paths), 0)
	if err := c.Report(ctx, UsageReport{Org: "a", Amount: 0}); err != nil {
		t.Error(err)
	}
	_, body := d.got()
	same(t, "a report", body, object{"amount": 0, "org": "a"})
}

// Ten thousand calls at once leave no goroutine and no descriptor behind.
func TestManyAtOnce(t *testing.T) {
	d, c := start(t, allowed(nil))
	_, _ = c.Check(ctx, Check{Path: "/"})
	c.Close()
	cancellable, cancel := context.WithCancel(ctx)
	defer cancel()
	routines, files := runtime.NumGoroutine(), descriptors()
	var all sync.WaitGroup
	var verdicts int32
	for i := 0; i < 10000; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			v, err := c.Check(cancellable, Check{Path: "/"})
			if err == nil && v.Failure == "" {
				atomic.AddInt32(&verdicts, 1)
			}
		}()
	}
	all.Wait()
	same(t, "verdicts", verdicts, 10000)
	if n := len(c.transport.idle); n < 1 || n > 128 {
		t.Errorf("%d connections are kept", n)
	}
	c.Close()
	d.CloseClientConnections() // the goroutines of the server
	until(t, "goroutines end", func() bool {
		return runtime.NumGoroutine() <= routines && descriptors() <= files
	})
}

func descriptors() int {
	found, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(found)
}
