package sluice

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// response adds the headers of a verdict when the response begins: what the
// application sets before that stays.
type response struct {
	http.ResponseWriter
	verdict *Verdict
	status  int // 0 until it has begun
}

// begin notes the status and adds the headers, once.
func (w *response) begin(status int) {
	if w.status == 0 {
		w.status = status
		w.verdict.setHeaders(w.Header(), false)
	}
}

func (w *response) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(data []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ---- what a ResponseWriter may have besides ----

type flusher struct{ *response }

func (w flusher) Flush() {
	w.begin(http.StatusOK)
	w.ResponseWriter.(http.Flusher).Flush()
}

// http1 is a response of HTTP/1.1, http2 one of HTTP/2.
type http1 struct{ flusher }

func (w http1) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.status == 0 {
		w.status = http.StatusSwitchingProtocols
	}
	return w.ResponseWriter.(http.Hijacker).Hijack()
}

func (w http1) ReadFrom(from io.Reader) (int64, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.(io.ReaderFrom).ReadFrom(from)
}

type http2 struct{ flusher }

func (w http2) Push(target string, opts *http.PushOptions) error {
	return w.ResponseWriter.(http.Pusher).Push(target, opts)
}

// whole is a ResponseWriter with what the one below has, so that handlers can
// stream and hijack.
func (w *response) whole() http.ResponseWriter {
	_, flushes := w.ResponseWriter.(http.Flusher)
	_, hijacks := w.ResponseWriter.(http.Hijacker)
	_, reads := w.ResponseWriter.(io.ReaderFrom)
	_, pushes := w.ResponseWriter.(http.Pusher)
	switch {
	case flushes && hijacks && reads:
		return http1{flusher{w}}
	case flushes && pushes:
		return http2{flusher{w}}
	case flushes && hijacks:
		return hijacker{flusher{w}}
	case flushes:
		return flusher{w}
	}
	return w
}

// hijacker is what middleware such as chi's makes of HTTP/1.1.
type hijacker struct{ flusher }

func (w hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http1(w).Hijack()
}
