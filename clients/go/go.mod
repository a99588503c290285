module sluice-client

go 1.19
