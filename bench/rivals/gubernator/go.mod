module sluice/bench/rivals/gubernator

go 1.22

require github.com/gubernator-io/gubernator/v2 v2.14.0
