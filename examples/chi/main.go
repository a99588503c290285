// A chi application with limits. See README.md.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	sluice "sluice-client"
)

func isChat(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/chat")
}

// rules: X-User stands for your sign-in; never trust such a header of a client.
// A chat may cost 100 tokens: they are held until the response ends.
var rules = sluice.Rules{
	User: func(r *http.Request) string { return r.Header.Get("X-User") },
	Cost: func(r *http.Request) sluice.Cost {
		if isChat(r) {
			return sluice.Units(100)
		}
		return nil
	},
	Hold: func(r *http.Request) time.Duration {
		if isChat(r) {
			return 30 * time.Second
		}
		return 0
	},
}

func hello(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{
		"hello": r.Header.Get("X-User")})
}

func chat(w http.ResponseWriter, r *http.Request) {
	tokens, _ := strconv.Atoi(r.URL.Query().Get("tokens"))
	if tokens == 0 {
		panic("the model has failed") // nothing is charged
	}
	w.Header().Set("Access-Control-Expose-Headers", "ETag")
	w.Header().Set("X-Request-Id", "mine")
	fmt.Fprint(w, "a long answer, ")
	w.(http.Flusher).Flush()
	sluice.FromContext(r.Context()).SetCost(sluice.Units(int64(tokens)))
	fmt.Fprintf(w, "%d tokens", tokens)
}

func main() {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8000"
	}
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	r.Use(sluice.Middleware(rules))
	r.Get("/api/hello", hello)
	r.Post("/api/chat", chat)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, r))
}
