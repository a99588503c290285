// Package sluicegrpc limits the calls of a gRPC server by a Sluice daemon.
//
//	server := grpc.NewServer(
//		grpc.UnaryInterceptor(sluicegrpc.Unary(rules)),
//		grpc.StreamInterceptor(sluicegrpc.Stream(rules)))
//
// A call is checked as POST with its full method as the path, such as
// /shop.Orders/Create. The headers of the verdict become header metadata. A
// denied call ends with ResourceExhausted (429, 402), PermissionDenied (403),
// Unauthenticated (401) or Unavailable (503), with RetryInfo where a time is
// known.
package sluicegrpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	sluice "sluice-client"
)

// Call is what functions of Rules get. Request is nil for a stream.
type Call struct {
	Context context.Context
	Method  string // /package.Service/Method
	Request interface{}
}

// Metadata is the first value of incoming metadata, or "".
func (c Call) Metadata(name string) string {
	if values := metadata.ValueFromIncomingContext(c.Context, name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Rules say what is sent to the daemon, and what is done with the verdict. All
// members are optional.
type Rules struct {
	// Client is the client; by default one with the settings of the
	// environment.
	Client *sluice.Client

	// Who asks. An empty text is not sent. IP is the peer by default.
	User, Org, Plan, Role, IP func(Call) string

	// Cost of a call; nil is what the policy says.
	Cost func(Call) sluice.Cost

	// Metadata are names of incoming metadata that the policy reads, as
	// headers. The daemon trusts them.
	Metadata []string

	// Skip: true means that the call is not checked.
	Skip func(Call) bool

	// Hold is how long the cost is held; 0 is not at all. It is settled when
	// the call has ended, and extended until then.
	Hold func(Call) time.Duration

	// Settle is the actual cost of a call with a hold. Nil: a call that fails
	// with Unknown, Internal, Unavailable, Unimplemented or DataLoss gives
	// everything back, any other settles what was held.
	// sluice.FromContext(ctx).SetCost in a handler comes first.
	Settle func(call Call, err error) sluice.Cost

	// OnDenied makes the error of a denied call.
	OnDenied func(Call, *sluice.Verdict) error
}

func (rules *Rules) complete() {
	if rules.Client != nil {
		return
	}
	client, err := sluice.New(sluice.Options{})
	if err != nil {
		panic(err)
	}
	rules.Client = client
}

// Unary is an interceptor for unary calls. It panics if Rules has no Client and
// the environment is invalid.
func Unary(rules Rules) grpc.UnaryServerInterceptor {
	rules.complete()
	return func(ctx context.Context, request interface{},
		info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (interface{}, error) {
		var answer interface{}
		err := rules.run(Call{ctx, info.FullMethod, request},
			func(ctx context.Context, _ *headers) (err error) {
				answer, err = next(ctx, request)
				return err
			})
		if err != nil {
			return nil, err
		}
		return answer, nil
	}
}

// Stream is an interceptor for streams: each stream is one call.
func Stream(rules Rules) grpc.StreamServerInterceptor {
	rules.complete()
	return func(server interface{}, stream grpc.ServerStream,
		info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		return rules.run(Call{stream.Context(), info.FullMethod, nil},
			func(ctx context.Context, h *headers) error {
				return next(server, &serverStream{stream, ctx, h})
			})
	}
}

// run checks a call, and passes it on with a context that has the passage.
func (rules *Rules) run(call Call, next func(context.Context, *headers) error) error {
	if rules.Skip != nil && rules.Skip(call) {
		return next(call.Context, nil)
	}
	check := rules.check(call)
	verdict, err := rules.Client.Check(call.Context, check)
	if err == nil && verdict.Allowed && verdict.Wait > 0 {
		err = sleep(call.Context, verdict.Wait)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return status.FromContextError(context.Canceled).Err()
	case errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(context.DeadlineExceeded).Err()
	case err != nil: // the setup is wrong; the text is not for the client
		return status.Error(codes.Internal, "the call cannot be checked")
	case !verdict.Allowed:
		return rules.deny(call, verdict)
	}
	return rules.pass(call, verdict, time.Duration(check.Hold), next)
}

func (rules *Rules) check(call Call) sluice.Check {
	check := sluice.Check{Method: "POST", Path: call.Method,
		Headers: map[string]string{}}
	for _, fact := range [...]struct {
		of func(Call) string
		to *string
	}{{rules.User, &check.User}, {rules.Org, &check.Org},
		{rules.Plan, &check.Plan}, {rules.Role, &check.Role},
		{rules.IP, &check.IP}} {
		if fact.of != nil {
			*fact.to = fact.of(call)
		}
	}
	if rules.IP == nil {
		check.IP = addressOf(call.Context)
	}
	for _, name := range rules.Metadata {
		values := metadata.ValueFromIncomingContext(call.Context, name)
		if len(values) > 0 {
			check.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	if rules.Cost != nil {
		check.Cost = rules.Cost(call)
	}
	if rules.Hold != nil {
		check.Hold = sluice.Duration(rules.Hold(call))
	}
	return check
}

func addressOf(ctx context.Context) string {
	from, has := peer.FromContext(ctx)
	if !has {
		return ""
	}
	host, _, err := net.SplitHostPort(from.Addr.String())
	if err != nil || net.ParseIP(strings.SplitN(host, "%", 2)[0]) == nil {
		return "" // a unix socket has no address
	}
	return host
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ---- denied ----

func codeOf(status int) codes.Code {
	switch status {
	case http.StatusTooManyRequests, http.StatusPaymentRequired:
		return codes.ResourceExhausted
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	}
	return codes.FailedPrecondition
}

func (rules *Rules) deny(call Call, v *sluice.Verdict) error {
	h := newHeaders(call.Context, v)
	h.add()
	if rules.OnDenied != nil {
		return rules.OnDenied(call, v)
	}
	s := status.New(codeOf(v.Status), v.Message)
	info := &errdetails.ErrorInfo{Reason: v.Code, Domain: "sluice"}
	if v.By != "" {
		info.Metadata = map[string]string{"limit": v.By}
	}
	detailed, err := s.WithDetails(info)
	if err == nil && v.RetryAfter > 0 {
		detailed, err = detailed.WithDetails(&errdetails.RetryInfo{
			RetryDelay: durationpb.New(v.RetryAfter)})
	}
	if err != nil {
		return s.Err()
	}
	return detailed.Err()
}

// ---- allowed ----

func (rules *Rules) pass(call Call, v *sluice.Verdict, lifetime time.Duration,
	next func(context.Context, *headers) error) error {
	passage := &sluice.Passage{Verdict: v}
	h := newHeaders(call.Context, v)
	ctx := sluice.NewContext(call.Context, passage)
	if h.ServerTransportStream != nil {
		ctx = grpc.NewContextWithServerTransportStream(ctx, h)
	}
	if v.Hold == "" {
		err := next(ctx, h)
		h.add()
		return err
	}
	held := rules.Client.Keep(v, lifetime)
	err := status.Error(codes.Internal, "the handler panics")
	defer func() { rules.end(held, passage, call, err) }()
	err = next(ctx, h)
	h.add()
	return err
}

// end settles or releases a hold. A client that cancels pays: it must not choose
// the cost.
func (rules *Rules) end(held *sluice.Held, passage *sluice.Passage, call Call,
	err error) {
	cost := passage.Cost()
	if cost == nil && rules.Settle != nil {
		cost = rules.Settle(call, err)
	}
	code := http.StatusOK
	switch status.Code(err) {
	case codes.Unknown, codes.Internal, codes.Unavailable, codes.DataLoss,
		codes.Unimplemented:
		if call.Context.Err() == nil {
			code = http.StatusInternalServerError
		}
	}
	held.End(cost, code)
}

// headers adds the headers of a verdict to those of the handler when they are
// sent. What the handler sets stays.
type headers struct {
	grpc.ServerTransportStream
	verdict *sluice.Verdict
	mu      sync.Mutex
	set     metadata.MD
	added   bool
}

func newHeaders(ctx context.Context, v *sluice.Verdict) *headers {
	return &headers{verdict: v, set: metadata.MD{},
		ServerTransportStream: grpc.ServerTransportStreamFromContext(ctx)}
}

// missing are the headers of the verdict that the handler has not set, once.
// Those for browsers and for bodies have no meaning here.
func (h *headers) missing() metadata.MD {
	h.mu.Lock()
	defer h.mu.Unlock()
	more := metadata.MD{}
	if h.added {
		return more
	}
	h.added = true
	for name, value := range h.verdict.Headers {
		name = strings.ToLower(name)
		if name == "content-type" || name == "cache-control" ||
			strings.HasPrefix(name, "access-control-") ||
			strings.HasPrefix(name, "grpc-") || len(h.set[name]) > 0 {
			continue
		}
		more[name] = []string{value}
	}
	return more
}

func (h *headers) note(md metadata.MD) {
	h.mu.Lock()
	h.set = metadata.Join(h.set, md)
	h.mu.Unlock()
}

// add sets what is missing. It does nothing if headers have been sent.
func (h *headers) add() {
	if h.ServerTransportStream != nil {
		_ = h.ServerTransportStream.SetHeader(h.missing())
	}
}

func (h *headers) SetHeader(md metadata.MD) error {
	h.note(md)
	return h.ServerTransportStream.SetHeader(md)
}

func (h *headers) SendHeader(md metadata.MD) error {
	h.note(md)
	return h.ServerTransportStream.SendHeader(metadata.Join(md, h.missing()))
}

type serverStream struct {
	grpc.ServerStream
	ctx context.Context
	h   *headers
}

func (s *serverStream) Context() context.Context { return s.ctx }

func (s *serverStream) SetHeader(md metadata.MD) error {
	if s.h != nil {
		s.h.note(md)
	}
	return s.ServerStream.SetHeader(md)
}

func (s *serverStream) SendHeader(md metadata.MD) error {
	if s.h == nil {
		return s.ServerStream.SendHeader(md)
	}
	s.h.note(md)
	return s.ServerStream.SendHeader(metadata.Join(md, s.h.missing()))
}

func (s *serverStream) SendMsg(message interface{}) error {
	if s.h != nil {
		s.h.add()
	}
	return s.ServerStream.SendMsg(message)
}
