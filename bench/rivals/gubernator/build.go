//go:build tools

// The server gubernator, of the version in go.mod. `go install PATH@VERSION`
// would ask the proxy for a list of versions, which it does not give out.
package build

import _ "github.com/gubernator-io/gubernator/v2/cmd/gubernator"
