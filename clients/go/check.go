package sluice

import (
	"encoding/json"
	"strconv"
	"time"
)

// Check describes a request, a job or one limit, and the caller. It has exactly
// one of Path, Job and Limit. What is empty is not sent.
type Check struct {
	Method string `json:"method,omitempty"` // default GET
	Path   string `json:"path,omitempty"`   // with the query, as it was sent
	Job    string `json:"job,omitempty"`
	Limit  string `json:"limit,omitempty"` // one limit, for Key
	Key    string `json:"key,omitempty"`

	User string `json:"user,omitempty"`
	Org  string `json:"org,omitempty"`
	Plan string `json:"plan,omitempty"`
	Role string `json:"role,omitempty"`
	IP   string `json:"ip,omitempty"`

	// Headers of the request. The daemon trusts them.
	Headers map[string]string `json:"headers,omitempty"`

	// Cost is what the policy says if it is nil; Units(0) takes nothing.
	Cost Cost `json:"cost,omitempty"`
	// Hold is how long the cost is held; see Client.Hold.
	Hold Duration `json:"hold,omitempty"`
	// Wait is how long the daemon may wait for capacity.
	Wait Duration `json:"wait,omitempty"`

	RequestID      string `json:"request_id,omitempty"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	Body           string `json:"body,omitempty"` // for routes that verify it
}

// Cost is a number for all limits, Units(3), or a number for each limit,
// Cost{"tokens": 500}.
type Cost map[string]int64

// Units is a cost for all limits.
func Units(n int64) Cost { return Cost{"": n} }

// MarshalJSON writes a number, or an object with a number for each limit.
func (c Cost) MarshalJSON() ([]byte, error) {
	if n, all := c[""]; all {
		return strconv.AppendInt(nil, n, 10), nil
	}
	return json.Marshal(map[string]int64(c))
}

// UnmarshalJSON reads a number, or an object with a number for each limit.
func (c *Cost) UnmarshalJSON(text []byte) error {
	var n int64
	if json.Unmarshal(text, &n) == nil {
		*c = Units(n)
		return nil
	}
	return json.Unmarshal(text, (*map[string]int64)(c))
}

// total is the cost as one number: the largest of several.
func (c Cost) total() int64 {
	if len(c) == 0 {
		return 1
	}
	most := int64(0)
	for _, n := range c {
		if n > most {
			most = n
		}
	}
	return most
}

// Duration is a time.Duration that the daemon reads: "30s".
type Duration time.Duration

var units = []struct {
	size time.Duration
	name string
}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}

// String writes whole hours, minutes or seconds, or else milliseconds, rounded
// up.
func (d Duration) String() string {
	t := time.Duration(d)
	for _, unit := range units {
		if t >= unit.size && t%unit.size == 0 {
			return strconv.FormatInt(int64(t/unit.size), 10) + unit.name
		}
	}
	ms := (t + time.Millisecond - 1) / time.Millisecond
	return strconv.FormatInt(int64(ms), 10) + "ms"
}

// MarshalJSON writes the text of String.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(d.String())
}

// caller is whose allowance a check takes while the daemon is away.
func (c *Check) caller() [2]string {
	for _, who := range [...][2]string{{"user", c.User}, {"org", c.Org},
		{"key", c.Key}, {"ip", c.IP}} {
		if who[1] != "" {
			return who
		}
	}
	return [2]string{}
}
