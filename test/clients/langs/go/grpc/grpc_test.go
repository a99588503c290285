// The interceptors, in a real gRPC server and with a real daemon at SLUICE_URL,
// whose policy is policy.yaml. The service is grpc.health.v1.Health: Check is
// unary, Watch is a stream.
package grpctest

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	sluice "sluice-client"
	sluicegrpc "sluice-client/grpc"
)

type server struct {
	health.UnimplementedHealthServer
}

func (*server) Check(ctx context.Context, r *health.HealthCheckRequest) (
	*health.HealthCheckResponse, error) {
	if r.Service == "fails" {
		return nil, status.Error(codes.Internal, "no")
	}
	if r.Service == "sets" {
		_ = grpc.SetHeader(ctx, metadata.Pairs("x-request-id", "mine"))
		sluice.FromContext(ctx).SetCost(sluice.Units(42))
	}
	return &health.HealthCheckResponse{Status: 1}, nil
}

func (*server) Watch(r *health.HealthCheckRequest,
	stream health.Health_WatchServer) error {
	_ = stream.SetHeader(metadata.Pairs("x-request-id", "mine"))
	for i := 0; i < 2; i++ {
		if err := stream.Send(&health.HealthCheckResponse{Status: 1}); err != nil {
			return err
		}
	}
	sluice.FromContext(stream.Context()).SetCost(sluice.Units(7))
	return nil
}

// start serves with these rules and returns a client.
func start(t *testing.T, rules sluicegrpc.Rules) health.HealthClient {
	t.Helper()
	if rules.User == nil {
		rules.User = func(call sluicegrpc.Call) string {
			return call.Metadata("x-user")
		}
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(sluicegrpc.Unary(rules)),
		grpc.StreamInterceptor(sluicegrpc.Stream(rules)))
	health.RegisterHealthServer(s, &server{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return health.NewHealthClient(conn)
}

func as(user string) context.Context {
	return metadata.NewOutgoingContext(context.Background(),
		metadata.Pairs("x-user", user))
}

func client(t *testing.T, o sluice.Options) *sluice.Client {
	t.Helper()
	o.Timeout = time.Minute
	c, err := sluice.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// left are the units of a user that are left.
func left(t *testing.T, user string) int64 {
	t.Helper()
	v, err := client(t, sluice.Options{}).Check(context.Background(),
		sluice.Check{Limit: "units", Key: user, Cost: sluice.Units(0)})
	if err != nil {
		t.Fatal(err)
	}
	return v.Remaining
}

func want(t *testing.T, what string, got, wanted interface{}) {
	t.Helper()
	if got != wanted {
		t.Errorf("%s is %v, want %v", what, got, wanted)
	}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if done() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("never: %s", what)
}

func TestUnary(t *testing.T) {
	c := start(t, sluicegrpc.Rules{Client: client(t, sluice.Options{})})
	for i := 0; i < 3; i++ {
		if _, err := c.Check(as("ann"), &health.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	var header metadata.MD
	_, err := c.Check(as("ann"), &health.HealthCheckRequest{}, grpc.Header(&header))
	want(t, "the code", status.Code(err), codes.ResourceExhausted)
	want(t, "remaining", header.Get("x-ratelimit-remaining")[0], "0")
	var retry *errdetails.RetryInfo
	var info *errdetails.ErrorInfo
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.RetryInfo:
			retry = detail
		case *errdetails.ErrorInfo:
			info = detail
		}
	}
	if d := retry.GetRetryDelay().AsDuration(); d <= 0 || d > 20*time.Second {
		t.Error("retry after", d)
	}
	want(t, "the reason", info.GetReason(), "RATE_LIMITED")
	want(t, "the limit", info.GetMetadata()["limit"], "calls")
	_, err = c.Check(as("bob"), &health.HealthCheckRequest{}, grpc.Header(&header))
	want(t, "the error of another user", err, nil)
}

func TestHeadersStay(t *testing.T) {
	c := start(t, sluicegrpc.Rules{Client: client(t, sluice.Options{})})
	var header metadata.MD
	_, err := c.Check(as("cat"), &health.HealthCheckRequest{Service: "sets"},
		grpc.Header(&header))
	want(t, "the error", err, nil)
	want(t, "ids", len(header.Get("x-request-id")), 1)
	want(t, "the id", header.Get("x-request-id")[0], "mine")
	want(t, "remaining", header.Get("x-ratelimit-remaining")[0], "2")
}

func holds(t *testing.T, c *sluice.Client) health.HealthClient {
	return start(t, sluicegrpc.Rules{Client: c,
		Cost: func(sluicegrpc.Call) sluice.Cost { return sluice.Cost{"units": 100} },
		Hold: func(sluicegrpc.Call) time.Duration { return time.Minute },
	})
}

func TestHolds(t *testing.T) {
	c := holds(t, client(t, sluice.Options{}))
	_, err := c.Check(as("dan"), &health.HealthCheckRequest{Service: "sets"})
	want(t, "the error", err, nil)
	until(t, "it is settled", func() bool { return left(t, "dan") == 958 })
	_, err = c.Check(as("eve"), &health.HealthCheckRequest{Service: "fails"})
	want(t, "the code", status.Code(err), codes.Internal)
	until(t, "it is released", func() bool { return left(t, "eve") == 1000 })
}

func TestStream(t *testing.T) {
	c := holds(t, client(t, sluice.Options{}))
	stream, err := c.Watch(as("fay"), &health.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	header, err := stream.Header()
	want(t, "the error", err, nil)
	want(t, "the id", header.Get("x-request-id")[0], "mine")
	want(t, "remaining", len(header.Get("x-ratelimit-remaining")), 1)
	messages := 0
	for err == nil {
		if _, err = stream.Recv(); err == nil {
			messages++
		}
	}
	want(t, "messages", messages, 2)
	until(t, "it is settled", func() bool { return left(t, "fay") == 993 })
}

func TestWithoutDaemon(t *testing.T) {
	c := holds(t, client(t, sluice.Options{URL: "http://127.0.0.1:1"}))
	_, err := c.Check(as("gil"), &health.HealthCheckRequest{})
	want(t, "the error", err, nil)
	c = holds(t, client(t, sluice.Options{URL: "http://127.0.0.1:1",
		OnFailure: sluice.Deny}))
	_, err = c.Check(as("gil"), &health.HealthCheckRequest{})
	want(t, "the code", status.Code(err), codes.Unavailable)
}

func TestRefusedSkippedAndOwn(t *testing.T) {
	plain := client(t, sluice.Options{})
	c := start(t, sluicegrpc.Rules{Client: plain,
		Cost: func(sluicegrpc.Call) sluice.Cost { return sluice.Cost{"no": 1} }})
	_, err := c.Check(as("hal"), &health.HealthCheckRequest{})
	want(t, "the code of a refused check", status.Code(err), codes.Internal)
	c = start(t, sluicegrpc.Rules{Client: plain,
		Skip: func(sluicegrpc.Call) bool { return true }})
	for i := 0; i < 5; i++ {
		_, err = c.Check(as("hal"), &health.HealthCheckRequest{})
		want(t, "the error of a skipped call", err, nil)
	}
	c = start(t, sluicegrpc.Rules{Client: plain,
		Cost: func(sluicegrpc.Call) sluice.Cost { return sluice.Units(4) },
		OnDenied: func(_ sluicegrpc.Call, v *sluice.Verdict) error {
			return status.Error(codes.Aborted, v.By)
		}})
	_, err = c.Check(as("hal"), &health.HealthCheckRequest{})
	want(t, "the own code", status.Code(err), codes.Aborted)
}

// The server of the page in the guide, which another process runs.
func TestPage(t *testing.T) {
	address := os.Getenv("PAGE")
	if address == "" {
		t.Skip("PAGE is not set")
	}
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := health.NewHealthClient(conn)
	for i := 0; i < 4; i++ {
		_, err = c.Check(as("page"), &health.HealthCheckRequest{},
			grpc.WaitForReady(true))
		want(t, fmt.Sprint("call ", i), status.Code(err) ==
			codes.ResourceExhausted, i == 3)
	}
}
