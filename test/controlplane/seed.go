package controlplane

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	// seedPuts is how many objects one transaction writes. It is etcd's own limit (embed.DefaultMaxTxnOps).
	seedPuts = 128
	// seedWriters is how many transactions run in parallel.
	seedWriters = 4
)

// Seed writes objects into etcd as the API server stores them, as protobuf. The version of an object must be its storage version.
// Objects are not defaulted, admitted or validated. Hundreds of thousands of objects take seconds.
type Seed struct {
	client *http.Client
	txn    []byte
	puts   int
	group  *errgroup.Group
	ctx    context.Context
}

func newSeed(ctx context.Context, dir string) *Seed {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			// The file's name is the host and port in etcdSocket. The length of its path is limited; see components.go.
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "etcd:0"))
		},
		Protocols: new(http.Protocols),
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	s := &Seed{client: &http.Client{Transport: transport}}
	s.group, s.ctx = errgroup.WithContext(ctx)
	s.group.SetLimit(seedWriters)
	return s
}

// ping reads a key that does not exist, to check that etcd answers.
func (s *Seed) ping(context.Context) error {
	const rangeKey = 1
	return s.call("/etcdserverpb.KV/Range", appendField(nil, rangeKey, []byte("ready")))
}

// Put stores an object. resource is the resource's name in etcd's keys, such as "pods" or "minions". Put returns an error if the
// object's kind is unknown, or if an earlier object could not be written.
func (s *Seed) Put(resource string, object runtime.Object) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return fmt.Errorf("storing one of %s: %w", resource, err)
	}
	key := path.Join("/registry", resource, accessor.GetNamespace(), accessor.GetName())
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return fmt.Errorf("storing %s: %w", key, err)
	}
	object.GetObjectKind().SetGroupVersionKind(kinds[0])
	var value bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &value); err != nil {
		return fmt.Errorf("storing %s: %w", key, err)
	}
	s.txn = appendPut(s.txn, key, value.Bytes())
	if s.puts++; s.puts == seedPuts {
		s.flush()
	}
	return s.ctx.Err()
}

// flush sends the pending objects.
func (s *Seed) flush() {
	txn := s.txn
	s.txn, s.puts = nil, 0
	s.group.Go(func() error { return s.call("/etcdserverpb.KV/Txn", txn) })
}

// close waits until all objects are written.
func (s *Seed) close() error {
	if s.puts > 0 {
		s.flush()
	}
	defer s.client.CloseIdleConnections()
	return s.group.Wait()
}

// appendPut appends an operation to the success operations of a TxnRequest: a RequestOp with a PutRequest of key and value
// (etcd's api/etcdserverpb/rpc.proto).
func appendPut(txn []byte, key string, value []byte) []byte {
	const txnSuccess, opPut, putKey, putValue = 2, 2, 1, 2
	put := appendField(appendField(nil, putKey, []byte(key)), putValue, value)
	return appendField(txn, txnSuccess, appendField(nil, opPut, put))
}

// appendField appends a protobuf field whose value is bytes or a message.
func appendField(to []byte, number uint64, value []byte) []byte {
	const bytesType = 2
	to = binary.AppendUvarint(to, number<<3|bytesType)
	return append(binary.AppendUvarint(to, uint64(len(value))), value...)
}

// call makes one gRPC call: it posts a message after a five-byte header, and ignores the message in the answer.
func (s *Seed) call(method string, message []byte) error {
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	body := io.MultiReader(bytes.NewReader(head), bytes.NewReader(message))
	request, err := http.NewRequestWithContext(s.ctx, http.MethodPost, "http://etcd"+method, body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	for _, h := range []http.Header{response.Header, response.Trailer} { // an answer without a message has no trailer
		switch h.Get("Grpc-Status") {
		case "":
		case "0":
			return nil
		default:
			return errors.New(h.Get("Grpc-Message"))
		}
	}
	return fmt.Errorf("calling %s: answered %s", method, response.Status)
}
