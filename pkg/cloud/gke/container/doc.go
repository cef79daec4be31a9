// Package container is a client for the part of Google's container/v1 REST API that upgrades of GKE node pools need. It uses
// net/http and has no policy: it reads, sends single writes, and classifies answers.
//
// The structs have the names of the schemas in Google's discovery document, and only the fields that are needed. An enum is a
// string type. The client keeps values that it does not know, because GKE adds values without a new version of the API.
//
// # What an answer leaves out
//
// The API omits fields that have their zero value. A missing number is 0, a missing bool is false, and a missing scope of a
// maintenance exclusion is NO_UPGRADES. Fields that are sent in requests are pointers, so that 0 and false can be sent.
//
// # Where credentials are sent
//
// A Client sends its access token only to the scheme and host of its endpoint. It follows no redirects. Errors contain no token.
//
// # What is sent again
//
// Reads are sent again after connection errors and the answers 429, 500, 502, 503 and 504. A client never sends a write again,
// because the first request may have had its effect.
package container
