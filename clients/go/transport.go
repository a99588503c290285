package sluice

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// HTTP/1.1 over kept connections, one request at a time on each. There is no
// goroutine per connection: an idle one is looked at before it is used again.

const (
	idleLongest   = 50 * time.Second // the daemon closes them after 75
	answerLongest = 64 << 20
)

// address is where the daemon listens.
type address struct {
	network, target string // for net.Dial
	host            string // for the Host header
	tls             *tls.Config
}

func parseAddress(text string, config *tls.Config) (address, error) {
	if path := strings.TrimPrefix(text, "unix:"); path != text && path != "" {
		if strings.HasPrefix(path, "///") {
			path = path[2:]
		}
		return address{network: "unix", target: path, host: "localhost"}, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" ||
		u.Scheme != "http" && u.Scheme != "https" {
		return address{}, fmt.Errorf("sluice: the address %q is invalid; write "+
			"http://HOST:PORT, https://HOST:PORT or unix:PATH", text)
	}
	a := address{network: "tcp", host: u.Host}
	port := u.Port()
	if u.Scheme == "https" {
		if config == nil {
			config = &tls.Config{}
		}
		a.tls = config.Clone()
		if a.tls.ServerName == "" {
			a.tls.ServerName = u.Hostname()
		}
	}
	if port == "" {
		port = u.Scheme // net.Dial knows the names
	}
	a.target = net.JoinHostPort(u.Hostname(), port)
	return a, nil
}

// link is a connection. It reads at most `left` bytes for one answer.
type link struct {
	net.Conn
	reader *bufio.Reader
	left   int64
	failed error     // of the last Read; readers of lines may hide it
	since  time.Time // when it became idle
}

func (l *link) Read(to []byte) (int, error) {
	if l.left <= 0 {
		return 0, malformed("the answer is longer than 64 MiB")
	}
	if int64(len(to)) > l.left {
		to = to[:l.left]
	}
	n, err := l.Conn.Read(to)
	l.left -= int64(n)
	l.failed = err
	return n, err
}

type transport struct {
	where address
	head  string        // of every request, behind its first line
	open  chan struct{} // a place for each open connection
	mu    sync.Mutex
	idle  []*link // the last one was used last
}

func newTransport(where address, token string, most int) *transport {
	t := &transport{where: where, open: make(chan struct{}, most)}
	t.head = " HTTP/1.1\r\nHost: " + where.host + "\r\n"
	if token != "" {
		t.head += "Authorization: Bearer " + token + "\r\n"
	}
	return t
}

func (t *transport) close() {
	t.mu.Lock()
	idle := t.idle
	t.idle = nil
	t.mu.Unlock()
	for _, l := range idle {
		l.Close()
	}
}

// exchange sends one request and reads its answer before `limit`. It fails with
// an *Error, or with the error of ctx if the caller has cancelled it.
func (t *transport) exchange(ctx context.Context, limit time.Time,
	method, path string, body []byte) (int, []byte, error) {
	if by, has := ctx.Deadline(); has && by.Before(limit) {
		limit = by
	}
	if err := t.enter(ctx, limit); err != nil {
		return 0, nil, t.failed(ctx, err)
	}
	defer func() { <-t.open }()
	l := t.takeIdle()
	if l == nil {
		var err error
		if l, err = t.dial(ctx, limit); err != nil {
			return 0, nil, t.failed(ctx, err)
		}
	}
	stop := watch(ctx, l.Conn)
	status, text, keep, err := t.once(l, limit, method, path, body)
	if !stop() || err != nil || !keep {
		l.Close()
	} else {
		t.putIdle(l)
	}
	if err != nil {
		return 0, nil, t.failed(ctx, err)
	}
	return status, text, nil
}

// enter waits for a place.
func (t *transport) enter(ctx context.Context, limit time.Time) error {
	select {
	case t.open <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(time.Until(limit))
	defer timer.Stop()
	select {
	case t.open <- struct{}{}:
		return nil
	case <-timer.C:
		return context.DeadlineExceeded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch ends what a connection does when ctx is cancelled. The function that it
// returns stops that; it is false if ctx was cancelled before.
func watch(ctx context.Context, conn net.Conn) func() bool {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	stop, ended := make(chan struct{}), make(chan bool, 1)
	go func() {
		select {
		case <-ctx.Done():
			_ = conn.SetDeadline(time.Unix(1, 0))
			ended <- false
		case <-stop:
			ended <- true
		}
	}()
	return func() bool {
		close(stop)
		return <-ended
	}
}

func (t *transport) takeIdle() *link {
	oldest := time.Now().Add(-idleLongest)
	for {
		t.mu.Lock()
		n := len(t.idle)
		if n == 0 {
			t.mu.Unlock()
			return nil
		}
		l := t.idle[n-1]
		t.idle[n-1] = nil
		t.idle = t.idle[:n-1]
		t.mu.Unlock()
		if l.since.After(oldest) && isQuiet(l.Conn) {
			return l
		}
		l.Close()
	}
}

func (t *transport) putIdle(l *link) {
	l.since = time.Now()
	t.mu.Lock()
	t.idle = append(t.idle, l)
	t.mu.Unlock()
}

func (t *transport) dial(ctx context.Context, limit time.Time) (*link, error) {
	dialer := net.Dialer{Deadline: limit}
	conn, err := dialer.DialContext(ctx, t.where.network, t.where.target)
	if err != nil {
		return nil, err
	}
	if t.where.tls != nil {
		secure := tls.Client(conn, t.where.tls)
		_ = secure.SetDeadline(limit)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		conn = secure
	}
	l := &link{Conn: conn}
	l.reader = bufio.NewReaderSize(l, 4096)
	return l, nil
}

// once sends a request on a connection and reads the answer. `keep` says that
// the connection can be used again.
func (t *transport) once(l *link, limit time.Time, method, path string,
	body []byte) (status int, text []byte, keep bool, err error) {
	if err = l.SetDeadline(limit); err != nil {
		return
	}
	l.left = answerLongest
	if _, err = l.Write(t.request(method, path, body)); err != nil {
		return
	}
	if _, err = l.reader.Peek(1); err != nil {
		return // no answer at all
	}
	var response *http.Response
	for response == nil || response.StatusCode < 200 {
		response, err = http.ReadResponse(l.reader, nil)
		if err != nil {
			return 0, nil, false, l.notHTTP(err)
		}
		if response.StatusCode == http.StatusSwitchingProtocols {
			return 0, nil, false, malformed("the answer switches protocols")
		}
	}
	defer response.Body.Close()
	text, err = readBody(response)
	if err != nil {
		return 0, nil, false, l.notHTTP(err)
	}
	keep = !response.Close && l.reader.Buffered() == 0
	return response.StatusCode, text, keep, nil
}

func readBody(response *http.Response) ([]byte, error) {
	if n := response.ContentLength; n >= 0 && n <= 1<<20 {
		text := make([]byte, n)
		_, err := io.ReadFull(response.Body, text)
		return text, err
	}
	return io.ReadAll(response.Body)
}

func (t *transport) request(method, path string, body []byte) []byte {
	var b bytes.Buffer
	b.Grow(len(t.head) + len(path) + len(body) + 96)
	b.WriteString(method)
	b.WriteByte(' ')
	b.WriteString(path)
	b.WriteString(t.head)
	if body != nil {
		b.WriteString("Content-Type: application/json\r\nContent-Length: ")
		b.WriteString(strconv.Itoa(len(body)))
		b.WriteString("\r\n")
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// notHTTP is the error of an answer that began, but is not a response.
func (l *link) notHTTP(err error) error {
	var timeout net.Error
	if errors.As(l.failed, &timeout) && timeout.Timeout() {
		return l.failed
	}
	return &Error{Failure: Malformed, cause: err,
		text: "the answer is not valid HTTP: " + err.Error()}
}

// failed is the *Error of an error of a connection.
func (t *transport) failed(ctx context.Context, err error) error {
	if ctx.Err() == context.Canceled {
		return fmt.Errorf("sluice: %w", ctx.Err())
	}
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout() {
		return &Error{Failure: Timeout, cause: err,
			text: t.where.target + " did not answer in time"}
	}
	return &Error{Failure: Unreachable, cause: err,
		text: t.where.target + " cannot be reached: " + err.Error()}
}
