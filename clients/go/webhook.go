package sluice

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrWebhook is what errors of an invalid webhook wrap.
var ErrWebhook = errors.New("the webhook is not valid")

// Webhook says how webhooks are signed.
type Webhook struct {
	// Secrets: one, or several while they are changed.
	Secrets []string
	// Scheme is "standard-webhooks" (default), "stripe" or "hmac-sha256".
	Scheme string
	// Tolerance is how old a webhook may be, or how far in the future. Default
	// 5 minutes.
	Tolerance time.Duration
	// Header replaces the name of the signature's header; for
	// standard-webhooks it is the prefix of the three names.
	Header string
	// Now is the time; default time.Now().
	Now time.Time
}

// Verify returns an error unless `body`, as it arrived, has a valid signature.
func (h Webhook) Verify(header http.Header, body []byte) error {
	if len(h.Secrets) == 0 {
		return errors.New("sluice: Webhook needs Secrets")
	}
	if h.Tolerance == 0 {
		h.Tolerance = 5 * time.Minute
	}
	if h.Now.IsZero() {
		h.Now = time.Now()
	}
	switch h.Scheme {
	case "", "standard-webhooks":
		return h.standard(header, body)
	case "stripe":
		return h.stripe(header, body)
	case "hmac-sha256":
		return h.plain(header, body)
	}
	return fmt.Errorf("sluice: unknown scheme %q; the schemes are "+
		"standard-webhooks, stripe and hmac-sha256", h.Scheme)
}

func invalid(why string) error {
	return fmt.Errorf("sluice: %w: %s", ErrWebhook, why)
}

func (h Webhook) name(usual string) string {
	if h.Header != "" {
		return h.Header
	}
	return usual
}

func need(header http.Header, name string) (string, error) {
	if value := header.Get(name); value != "" {
		return value, nil
	}
	return "", invalid("the header " + name + " is missing")
}

func (h Webhook) checkTime(text string) error {
	sent, err := strconv.ParseUint(text, 10, 52)
	age := h.Now.Unix() - int64(sent)
	most := int64(h.Tolerance / time.Second)
	switch {
	case err != nil:
		return invalid("its timestamp is not a number of seconds")
	case age > most:
		return invalid("it was sent too long ago")
	case -age > most:
		return invalid("its timestamp is in the future")
	}
	return nil
}

// match compares every pair, in constant time.
func match(keys [][]byte, data []byte, given [][]byte) error {
	good := false
	if len(given) > 16 {
		given = given[:16]
	}
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write(data)
		made := mac.Sum(nil)
		for _, one := range given {
			good = hmac.Equal(made, one) || good
		}
	}
	if !good {
		return invalid("its signature is wrong")
	}
	return nil
}

func (h Webhook) standard(header http.Header, body []byte) error {
	prefix := h.name("webhook")
	var words [3]string
	for i, name := range [...]string{"-id", "-timestamp", "-signature"} {
		var err error
		if words[i], err = need(header, prefix+name); err != nil {
			return err
		}
	}
	if err := h.checkTime(words[1]); err != nil {
		return err
	}
	var keys, given [][]byte
	for _, secret := range h.Secrets {
		key, err := base64.StdEncoding.DecodeString(
			strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) == 0 {
			return errors.New("sluice: a secret of standard-webhooks is " +
				"whsec_ and base64")
		}
		keys = append(keys, key)
	}
	for _, word := range strings.Split(words[2], " ") {
		if strings.HasPrefix(word, "v1,") {
			given = append(given, unbase64(word[3:]))
		}
	}
	data := append([]byte(words[0]+"."+words[1]+"."), body...)
	return match(keys, data, given)
}

func (h Webhook) stripe(header http.Header, body []byte) error {
	text, err := need(header, h.name("Stripe-Signature"))
	if err != nil {
		return err
	}
	var sent []string
	var given [][]byte
	for _, word := range strings.Split(text, ",") {
		pair := strings.SplitN(strings.TrimSpace(word), "=", 2)
		switch {
		case len(pair) != 2:
		case pair[0] == "t":
			sent = append(sent, pair[1])
		case pair[0] == "v1":
			given = append(given, unhex(pair[1]))
		}
	}
	if len(sent) != 1 {
		return invalid("its timestamp is not a number of seconds")
	}
	if err := h.checkTime(sent[0]); err != nil {
		return err
	}
	return match(h.keys(), append([]byte(sent[0]+"."), body...), given)
}

func (h Webhook) plain(header http.Header, body []byte) error {
	text, err := need(header, h.name("X-Hub-Signature-256"))
	if err != nil {
		return err
	}
	text = strings.TrimPrefix(text, "sha256=")
	given := unbase64(text)
	if len(text) == 2*sha256.Size {
		given = unhex(text)
	}
	return match(h.keys(), body, [][]byte{given})
}

func (h Webhook) keys() [][]byte {
	var keys [][]byte
	for _, secret := range h.Secrets {
		if secret != "" {
			keys = append(keys, []byte(secret))
		}
	}
	return keys
}

// A signature that cannot be decoded is empty: it matches nothing.
func unhex(text string) []byte {
	data, err := hex.DecodeString(text)
	if err != nil {
		return nil
	}
	return data
}

func unbase64(text string) []byte {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return data
}
