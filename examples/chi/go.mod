module chi-example

go 1.24

require (
	github.com/go-chi/chi/v5 v5.5.0
	sluice-client v0.0.0
)

replace sluice-client => ../../clients/go
