package sluice

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Verdict is the answer to a check.
type Verdict struct {
	Allowed   bool
	Status    int    // what a denied client gets, such as 429
	Code      string // such as RATE_LIMITED; empty if allowed
	Message   string
	By        string // the limit that denies
	RequestID string
	Hold      string // the id of the hold, if the check has one

	// The numbers of the limit in By; else of the enforced limit with the
	// smallest share left. Limit and Remaining are -1 without numbers.
	Limit, Remaining int64
	Reset            time.Duration

	RetryAfter  time.Duration // 0: no time would help, or it is allowed
	Wait        time.Duration // a paced request waits for this time
	HoldExpires time.Duration

	// Degraded: decided without the store, or without the daemon. Failure says
	// why the daemon did not decide; it is empty if it did.
	Degraded bool
	Failure  Failure

	Headers       map[string]string // for the response
	AppendHeaders []string          // those of Headers that are lists
	Body          json.RawMessage   // of a denial
	Limits        []LimitVerdict
}

// LimitVerdict is what one limit says. Numbers are nil if it has none.
type LimitVerdict struct {
	Name, Kind, Plan, Scope, Mode string
	Allowed                       bool
	Limit, Burst, Remaining       *int64
	ResetMs                       *int64 `json:"reset_ms"`
	RetryAfterMs                  *int64 `json:"retry_after_ms"`
	WaitMs                        *int64 `json:"wait_ms"`
}

// wireVerdict is a verdict as JSON has it.
type wireVerdict struct {
	Allowed       *bool             `json:"allowed"`
	Status        int               `json:"status"`
	Code          string            `json:"code"`
	Message       string            `json:"message"`
	By            string            `json:"by"`
	RequestID     string            `json:"request_id"`
	RetryAfterMs  int64             `json:"retry_after_ms"`
	HoldExpiresMs int64             `json:"hold_expires_ms"`
	Degraded      bool              `json:"degraded"`
	Hold          string            `json:"hold"`
	Limits        []LimitVerdict    `json:"limits"`
	Headers       map[string]string `json:"headers"`
	AppendHeaders []string          `json:"append_headers"`
	Body          json.RawMessage   `json:"body"`
}

func (w *wireVerdict) verdict() (*Verdict, error) {
	switch {
	case w.Allowed == nil:
		return nil, malformed(`the answer has no boolean "allowed"`)
	case w.Status < 100 || w.Status > 599:
		return nil, malformed(`the answer has no valid "status"`)
	}
	for name, value := range w.Headers {
		if strings.ContainsAny(name+value, "\r\n\x00") {
			return nil, malformed("a header of the answer has a line break")
		}
	}
	v := &Verdict{
		Allowed: *w.Allowed, Status: w.Status, Code: w.Code,
		Message: w.Message, By: w.By, RequestID: w.RequestID, Hold: w.Hold,
		Limit: -1, Remaining: -1, RetryAfter: ms(w.RetryAfterMs),
		HoldExpires: ms(w.HoldExpiresMs), Degraded: w.Degraded,
		Headers: w.Headers, AppendHeaders: w.AppendHeaders,
		Limits: w.Limits,
	}
	if !bytes.Equal(w.Body, []byte("null")) {
		v.Body = w.Body
	}
	if shown := shownOf(v.By, v.Limits); shown != nil {
		v.Limit, v.Remaining = orNone(shown.Limit), orNone(shown.Remaining)
		if shown.ResetMs != nil {
			v.Reset = ms(*shown.ResetMs)
		}
	}
	for i := range v.Limits {
		if w := v.Limits[i].WaitMs; w != nil && ms(*w) > v.Wait {
			v.Wait = ms(*w)
		}
	}
	return v, nil
}

// shownOf is the limit whose numbers are shown, or nil.
func shownOf(by string, limits []LimitVerdict) *LimitVerdict {
	var shown *LimitVerdict
	least := math.Inf(1)
	for i := range limits {
		one := &limits[i]
		if by != "" && one.Name == by {
			return one
		}
		if one.Mode != "enforce" || one.Limit == nil || one.Remaining == nil {
			continue
		}
		share := 0.0
		if *one.Limit != 0 {
			share = float64(*one.Remaining) / float64(*one.Limit)
		}
		if share < least {
			least, shown = share, one
		}
	}
	if by != "" {
		return nil
	}
	return shown
}

func orNone(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func parseVerdict(text []byte) (*Verdict, error) {
	var w wireVerdict
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, malformed("the answer is not a verdict: " + err.Error())
	}
	return w.verdict()
}

func parseVerdicts(text []byte, count int) ([]*Verdict, error) {
	var ws []wireVerdict
	if err := json.Unmarshal(text, &ws); err != nil || len(ws) != count {
		return nil, malformed(fmt.Sprintf(
			"the answer is not an array of %d verdicts", count))
	}
	verdicts := make([]*Verdict, count)
	for i := range ws {
		v, err := ws[i].verdict()
		if err != nil {
			return nil, err
		}
		verdicts[i] = v
	}
	return verdicts, nil
}

// BodyText is the body of a denial, as it is sent to the client.
func (v *Verdict) BodyText() []byte {
	var text string
	if len(v.Body) > 0 && v.Body[0] == '"' &&
		json.Unmarshal(v.Body, &text) == nil {
		return []byte(text)
	}
	return v.Body
}

// SetHeaders puts the headers of the verdict on a response. What is there stays.
// Lists that AppendHeaders names get what is missing in them. Content-Type
// belongs to the body: of a denial it is that of the verdict.
func (v *Verdict) SetHeaders(to http.Header) { v.setHeaders(to, !v.Allowed) }

func (v *Verdict) setHeaders(to http.Header, withType bool) {
	for name, value := range v.Headers {
		name = http.CanonicalHeaderKey(name)
		before := to[name]
		switch {
		case name == "Content-Type":
			if withType {
				to[name] = []string{value}
			}
		case len(before) == 0:
			to[name] = []string{value}
		case v.isList(name):
			to[name] = []string{joinLists(strings.Join(before, ", "), value)}
		}
	}
}

func (v *Verdict) isList(name string) bool {
	for _, one := range v.AppendHeaders {
		if http.CanonicalHeaderKey(one) == name {
			return true
		}
	}
	return false
}

// joinLists makes one list of two; items are compared without case.
func joinLists(before, more string) string {
	var items []string
	seen := map[string]bool{}
	for _, item := range strings.Split(before+","+more, ",") {
		item = strings.TrimSpace(item)
		if low := strings.ToLower(item); item != "" && !seen[low] {
			seen[low] = true
			items = append(items, item)
		}
	}
	if seen["*"] {
		return before
	}
	return strings.Join(items, ", ")
}

// ---- without a verdict of the daemon ----

const problems = "https://iana.org/assignments/http-problem-types#"

// passed is the verdict of Allow.
func passed(failure Failure, id string) *Verdict {
	return &Verdict{Allowed: true, Status: http.StatusOK, Limit: -1,
		Remaining: -1, RequestID: id, Degraded: true, Failure: failure}
}

// unavailable is the verdict of Deny: 503, because no limit has denied.
func unavailable(failure Failure, id string) *Verdict {
	v := passed(failure, id)
	v.deny(http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE",
		"Service unavailable", "temporary-reduced-capacity",
		"The limits of this request cannot be checked at the moment. Try "+
			"again shortly.", time.Second)
	return v
}

// local is the verdict of Local.
func local(failure Failure, id string, t taken) *Verdict {
	v := passed(failure, id)
	v.Limit, v.Remaining, v.Reset = t.limit, t.remaining, t.reset
	if !t.allowed {
		v.deny(http.StatusTooManyRequests, "RATE_LIMITED",
			"Too many requests", "quota-exceeded",
			"Too many requests. Try again later.", t.retry)
	}
	return v
}

func (v *Verdict) deny(status int, code, title, kind, detail string,
	retry time.Duration) {
	body := map[string]interface{}{"type": problems + kind, "title": title,
		"status": status, "detail": detail, "code": code}
	v.Allowed, v.Status, v.Code, v.Message = false, status, code, detail
	v.RetryAfter = retry
	v.Headers = map[string]string{"Content-Type": "application/problem+json",
		"Cache-Control": "no-store"}
	if retry > 0 {
		seconds := int64((retry + time.Second - 1) / time.Second)
		v.Headers["Retry-After"] = strconv.FormatInt(seconds, 10)
		body["retry_after"] = seconds
		body["retry_after_ms"] = retry.Milliseconds()
	}
	v.Body, _ = json.Marshal(body) // strings and numbers: it cannot fail
}
