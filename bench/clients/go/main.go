// One answer twice: /bare without a limit, /sluice with ours.
// ?u=NAME is the user.
package main

import (
	"net/http"
	"os"

	sluice "sluice-client"
)

func answer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write([]byte(`{"found":[]}`))
}

func main() {
	limit := sluice.Middleware(sluice.Rules{
		User: func(r *http.Request) string { return r.URL.Query().Get("u") },
	})
	http.HandleFunc("/bare", answer)
	http.Handle("/sluice", limit(http.HandlerFunc(answer)))
	panic(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
