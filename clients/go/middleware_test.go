package sluice

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// get serves one request through middleware.
func get(rules Rules, handler http.HandlerFunc, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	Middleware(rules)(handler).ServeHTTP(w, r)
	return w.Result()
}

func request(method, target string) *http.Request {
	return httptest.NewRequest(method, target, nil)
}

func text(r *http.Response) string {
	body, _ := io.ReadAll(r.Body)
	return string(body)
}

func hello(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "hello")
}

func TestWhatIsSent(t *testing.T) {
	d, c := start(t, allowed(nil))
	r := request("PUT", "/a%2Fb?q=1")
	r.URL.Path = "/b" // as http.StripPrefix does
	r.RemoteAddr = "192.0.2.7:1234"
	r.Header.Set("User-Agent", "test")
	r.Header.Add("X-Key", "one")
	r.Header.Add("X-Key", "two")
	r.Header.Set("X-Request-Id", "id-7")
	value := func(s string) func(*http.Request) string {
		return func(*http.Request) string { return s }
	}
	rules := Rules{Client: c, User: value("ann"), Org: value("acme"),
		Plan: value("pro"), Role: value(""), Headers: []string{"X-Key", "X-No"},
		Cost: func(*http.Request) Cost { return Cost{"a": 2} }}
	same(t, "the answer", text(get(rules, hello, r)), "hello")
	_, body := d.got()
	same(t, "the check", body, object{"method": "PUT", "path": "/a%2Fb?q=1",
		"user": "ann", "org": "acme", "plan": "pro", "ip": "192.0.2.7",
		"request_id": "id-7", "cost": object{"a": 2},
		"headers": object{"user-agent": "test", "x-key": "one, two"}})

	r = request("GET", "/")
	r.RemoteAddr = "@" // a unix socket
	r.Header.Set("X-Request-Id", "not a word")
	get(Rules{Client: c}, hello, r)
	_, body = d.got()
	same(t, "the check", body, object{"method": "GET", "path": "/"})
}

func TestForwardedFor(t *testing.T) {
	r := request("GET", "/")
	r.Header.Add("X-Forwarded-For", "10.0.0.1, 10.0.0.2")
	r.Header.Add("X-Forwarded-For", "10.0.0.3")
	for hops, want := range map[int]string{0: "", 1: "10.0.0.3",
		2: "10.0.0.2", 3: "10.0.0.1", 4: ""} {
		same(t, fmt.Sprint(hops, " hops"), ForwardedFor(hops)(r), want)
	}
}

func TestSkip(t *testing.T) {
	d, c := start(t, denied())
	rules := Rules{Client: c, Skip: func(*http.Request) bool { return true }}
	same(t, "the answer", text(get(rules, hello, request("GET", "/"))), "hello")
	paths, _ := d.got()
	same(t, "checks", len(paths), 0)
}

func TestDenied(t *testing.T) {
	_, c := start(t, denied())
	rules := Rules{Client: c}
	answer := get(rules, hello, request("GET", "/"))
	same(t, "the answer", object{"status": answer.StatusCode,
		"body": text(answer), "type": answer.Header.Get("Content-Type"),
		"retry":  answer.Header.Get("Retry-After"),
		"length": answer.Header.Get("Content-Length")},
		object{"status": 429, "body": "slow down", "type": "text/plain",
			"retry": "2", "length": "9"})
	same(t, "the body of HEAD", text(get(rules, hello, request("HEAD", "/"))), "")
	rules.OnDenied = func(w http.ResponseWriter, _ *http.Request, v *Verdict) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(420)
		fmt.Fprintf(w, "wait for %s", v.By)
	}
	answer = get(rules, hello, request("GET", "/"))
	same(t, "the own answer", object{"status": answer.StatusCode,
		"body": text(answer), "type": answer.Header.Get("Content-Type"),
		"retry": answer.Header.Get("Retry-After")},
		object{"status": 420, "body": "wait for a", "type": "text/html",
			"retry": "2"})
}

// A daemon that refuses the check must not open the door.
func TestRefused(t *testing.T) {
	d, c := start(t, nil)
	var reported error
	c.options.OnError = func(err error) { reported = err }
	d.set(401, object{"detail": "wrong token", "code": "UNAUTHORIZED"})
	answer := get(Rules{Client: c}, hello, request("GET", "/"))
	same(t, "the status", answer.StatusCode, 500)
	if strings.Contains(text(answer), "token") {
		t.Error("the client sees why")
	}
	if reported == nil || !strings.Contains(reported.Error(), "wrong token") {
		t.Error("reported:", reported)
	}
}

func TestHeadersOfAHandlerThatWritesNothing(t *testing.T) {
	_, c := start(t, allowed(nil))
	answer := get(Rules{Client: c}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "mine")
	}, request("GET", "/"))
	same(t, "the headers", []string{answer.Header.Get("X-Request-Id"),
		answer.Header.Get("X-RateLimit-Remaining")}, []string{"mine", "1"})
}

func TestHolds(t *testing.T) {
	settle := func(_ *http.Request, status int, h http.Header) Cost {
		return Units(int64(status) + int64(len(h.Get("X-Long"))))
	}
	for _, one := range []struct {
		name    string
		settle  func(*http.Request, int, http.Header) Cost
		handler http.HandlerFunc
		path    string
		body    object
	}{
		{"held cost", nil, hello, "settle", object{"status": 200}},
		{"5xx", nil, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(503)
		}, "release", object{"status": 503}},
		{"panic", nil, func(http.ResponseWriter, *http.Request) {
			panic("no")
		}, "release", object{"status": 500}},
		{"by the handler", settle, func(w http.ResponseWriter, r *http.Request) {
			hello(w, r)
			FromContext(r.Context()).SetCost(Units(7))
		}, "settle", object{"cost": 7, "status": 200}},
		{"by a function", settle, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", "12345")
			w.WriteHeader(201)
		}, "settle", object{"cost": 206, "status": 201}},
		{"nothing", func(*http.Request, int, http.Header) Cost {
			return Units(0)
		}, hello, "settle", object{"cost": 0, "status": 200}},
	} {
		d, c := start(t, allowed("h/1"))
		func() {
			defer func() { _ = recover() }()
			get(Rules{Client: c, Settle: one.settle,
				Hold: func(*http.Request) time.Duration { return time.Minute },
			}, one.handler, request("GET", "/"))
		}()
		c.Close() // waits
		paths, body := d.got()
		same(t, one.name, object{"paths": paths, "body": body},
			object{"paths": []string{"/v1/check", "/v1/holds/h/1/" + one.path},
				"body": one.body})
	}
}

// A client that goes away pays: the handler panics because of that.
func TestHoldOfAClientThatGoesAway(t *testing.T) {
	d, c := start(t, allowed("h"))
	began := make(chan struct{})
	server := httptest.NewServer(Middleware(Rules{Client: c,
		Hold: func(*http.Request) time.Duration { return time.Minute },
	})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		close(began)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	})))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-began
	conn.Close()
	until(t, "the hold is settled", func() bool {
		paths, _ := d.got()
		return len(paths) == 2 && paths[1] == "/v1/holds/h/settle"
	})
}

// A response may take longer than the hold.
func TestHoldIsExtended(t *testing.T) {
	answer := allowed("h")
	answer["hold_expires_ms"] = 100
	d, c := start(t, answer)
	get(Rules{Client: c,
		Hold: func(*http.Request) time.Duration { return time.Second },
	}, func(w http.ResponseWriter, r *http.Request) {
		until(t, "the hold is extended twice", func() bool {
			paths, body := d.got()
			return len(paths) >= 3 && paths[2] == "/v1/holds/h/extend" &&
				body["hold"] == "1s"
		})
	}, request("GET", "/"))
	c.Close()
	until(t, "it is settled", func() bool {
		paths, _ := d.got()
		return paths[len(paths)-1] == "/v1/holds/h/settle" ||
			paths[len(paths)-2] == "/v1/holds/h/settle"
	})
}

func TestPace(t *testing.T) {
	answer := allowed(nil)
	answer["limits"] = []object{{"name": "a", "wait_ms": 30}}
	_, c := start(t, answer)
	began := time.Now()
	get(Rules{Client: c}, hello, request("GET", "/"))
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Error("it waited for", took)
	}
}

// Handlers can stream, hijack, and copy files, as without middleware.
func TestWriterOfHTTP1(t *testing.T) {
	_, c := start(t, allowed(nil))
	server := httptest.NewServer(Middleware(Rules{Client: c})(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/copy" {
				_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("copied"))
				return
			}
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprint(conn, "HTTP/1.1 299 Mine\r\nConnection: close\r\n\r\n")
			conn.Close()
		})))
	defer server.Close()
	for path, want := range map[string]string{"/copy": "200 1", "/mine": "299 "} {
		answer, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = bufio.NewReader(answer.Body).WriteTo(io.Discard)
		answer.Body.Close()
		same(t, path, fmt.Sprint(answer.StatusCode, " ",
			answer.Header.Get("X-RateLimit-Remaining")), want)
	}
}

func TestWriterOfHTTP2(t *testing.T) {
	_, c := start(t, allowed(nil))
	server := httptest.NewUnstartedServer(Middleware(Rules{Client: c})(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, pushes := w.(http.Pusher)
			_, hijacks := w.(http.Hijacker)
			w.(http.Flusher).Flush()
			fmt.Fprint(w, r.ProtoMajor, pushes, hijacks)
		})))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	answer, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	same(t, "the answer", text(answer), "2 true false")
	same(t, "the header", answer.Header.Get("X-RateLimit-Remaining"), "1")
}

// An early hint is not yet the response.
func TestEarlyHints(t *testing.T) {
	_, c := start(t, allowed(nil))
	server := httptest.NewServer(Middleware(Rules{Client: c})(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("X-Request-Id", "mine")
			w.WriteHeader(http.StatusOK)
		})))
	defer server.Close()
	answer, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	same(t, "the id", answer.Header.Get("X-Request-Id"), "mine")
}
