module sluice/bench/rivals

go 1.19

require golang.org/x/time v0.12.0
