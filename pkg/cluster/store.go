package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// LabelManagedBy marks the ConfigMaps and Leases of this program. Its value is FieldManager.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// keyRecord and keyGroup are the ConfigMap's keys that only the holder of the lease writes. Anybody may write keyRequest.
	keyRecord  = "record"
	keyGroup   = "group"
	keyRequest = "request"
)

// Store stores one group's Record in a ConfigMap. It is not safe for concurrent use.
type Store struct {
	client           kubernetes.Interface
	namespace, group string
	lastSeen         *corev1.ConfigMap
	follower         *Follower
}

// ErrNotRecorded means that the upgrade to which a request was sent has no record, or no longer has one.
var ErrNotRecorded = errors.New("no such upgrade is recorded")

// NewStore returns the store of one group in a namespace.
func NewStore(client kubernetes.Interface, namespace, group string) *Store {
	return &Store{client: client, namespace: namespace, group: group}
}

// Name returns the ConfigMap's namespace and name, for people.
func (s *Store) Name() string { return s.namespace + "/" + ObjectName(s.group) }

// LoadRecord reads the record, zero if there is none. It returns an error for the record of a newer program.
func (s *Store) LoadRecord(ctx context.Context) (record.Record, error) {
	stored, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, ObjectName(s.group), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return record.Record{}, nil
	}
	if err != nil {
		return record.Record{}, fmt.Errorf("reading the upgrade's record: %w", AddAccessRemedy(err))
	}
	s.lastSeen = stored
	return DecodeRecord(stored)
}

// DecodeRecord returns the record in a ConfigMap.
func DecodeRecord(stored *corev1.ConfigMap) (record.Record, error) {
	var rec record.Record
	text := stored.Data[keyRecord]
	if text == "" {
		return rec, nil
	}
	err := json.Unmarshal([]byte(text), &rec)
	if err == nil && rec.Version <= record.Version {
		err = upgrade.CheckReadable(&rec)
	}
	if err != nil {
		return record.Record{}, fmt.Errorf("reading ConfigMap %s/%s: %w: run %s to forget that upgrade",
			stored.Namespace, stored.Name, err, shell.Command("kubectl delete configmap "+shell.Option("-n", stored.Namespace), stored.Name))
	}
	if rec.Version > record.Version {
		return record.Record{}, fmt.Errorf("reading ConfigMap %s/%s: its version %d is newer than %d: use the newer kubectl-nodeupgrade that wrote it",
			stored.Namespace, stored.Name, rec.Version, record.Version)
	}
	return rec, nil
}

// Save writes the record. It returns record.ErrChanged if the stored record is not the one that this store last read or wrote.
// Then another process carries out the upgrade.
func (s *Store) Save(ctx context.Context, rec record.Record) error {
	if s.follower != nil {
		s.adoptNewer(s.follower.latestObject())
	}
	text, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encoding the upgrade's record: %w", err)
	}
	next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: ObjectName(s.group), Labels: map[string]string{LabelManagedBy: FieldManager},
	}}
	if s.lastSeen != nil {
		next = s.lastSeen.DeepCopy()
	}
	if next.Data == nil {
		next.Data = map[string]string{}
	}
	next.Data[keyRecord], next.Data[keyGroup] = string(text), s.group
	stored, err := s.writeObject(ctx, next)
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return s.resolveConflict(ctx, rec, string(text))
	case apierrors.IsNotFound(err) && s.lastSeen != nil:
		return record.ErrChanged // it was deleted
	case err != nil:
		return fmt.Errorf("writing the upgrade's record to ConfigMap %s: %w", s.Name(), AddAccessRemedy(err))
	}
	s.lastSeen = stored
	return nil
}

// SaveRepeatedly is Save for a command without a loop that would call it again: it repeats the write if the answer is lost.
func (s *Store) SaveRepeatedly(ctx context.Context, rec record.Record) error {
	return retry.OnError(retry.DefaultBackoff, isUnanswered, func() error { return s.Save(ctx, rec) })
}

// isUnanswered reports whether the API server may have got the request, and its answer was lost.
func isUnanswered(err error) bool {
	failed, sent := errors.AsType[*url.Error](err)
	return sent && !failed.Timeout() && !errors.Is(err, context.Canceled)
}

func (s *Store) writeObject(ctx context.Context, next *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	if s.lastSeen == nil {
		return maps.Create(ctx, next, metav1.CreateOptions{FieldManager: FieldManager})
	}
	return maps.Update(ctx, next, metav1.UpdateOptions{FieldManager: FieldManager})
}

// resolveConflict finds out which other write caused the conflict. If our own write succeeded and only its answer was lost, it
// returns nil. If a label or a request was changed, it saves the record again. If the record was changed, it returns
// record.ErrChanged.
func (s *Store) resolveConflict(ctx context.Context, rec record.Record, text string) error {
	stored, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, ObjectName(s.group), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the upgrade's record: %w", AddAccessRemedy(err))
	}
	switch before := s.lastSeen; {
	case stored.Data[keyRecord] == text:
		s.lastSeen = stored
		return nil
	case before != nil && before.UID == stored.UID && stored.Data[keyRecord] == before.Data[keyRecord]:
		s.lastSeen = stored
		return s.Save(ctx, rec)
	default:
		return record.ErrChanged
	}
}

// adoptNewer replaces lastSeen by a later state of the ConfigMap, if that has the record that this store last read or wrote.
func (s *Store) adoptNewer(stored *corev1.ConfigMap) {
	if s.lastSeen != nil && stored != nil && stored.UID == s.lastSeen.UID && isNewer(stored, s.lastSeen) && stored.Data[keyRecord] == s.lastSeen.Data[keyRecord] {
		s.lastSeen = stored
	}
}

// UnreadableRequest returns why the request to the upgrade cannot be read, and the command that removes it. It returns "" if the
// request can be read or there is none. An unreadable request counts as none.
func (s *Store) UnreadableRequest() (why, remedy string) {
	if s.lastSeen == nil || s.lastSeen.Data[keyRequest] == "" {
		return "", ""
	}
	var asked record.Asked
	err := json.Unmarshal([]byte(s.lastSeen.Data[keyRequest]), &asked)
	if err == nil {
		return "", ""
	}
	const patch = `[{"op":"remove","path":"/data/` + keyRequest + `"}]`
	return fmt.Sprintf("the request in ConfigMap %s cannot be read (%v) and is ignored", s.Name(), err),
		shell.Command("kubectl patch configmap "+shell.Option("-n", s.namespace)+" --type=json "+shell.Option("-p", patch), ObjectName(s.group))
}

// CurrentRequest returns the request that was found when the record was last read, zero if there was none.
func (s *Store) CurrentRequest() record.Asked { return decodeRequest(s.lastSeen) }

// StoreRequest writes a request for the holder of the lease, replacing any other. It returns an error that is ErrNotRecorded if the record
// belongs to another run.
func (s *Store) StoreRequest(ctx context.Context, asked record.Asked) error {
	text, err := json.Marshal(asked)
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	return s.changeRequest(ctx, func(stored *corev1.ConfigMap) (string, error) {
		record, err := DecodeRecord(stored)
		if err == nil && record.Run != asked.Run {
			err = fmt.Errorf("%w: run %q", ErrNotRecorded, asked.Run)
		}
		return string(text), err
	})
}

// WithdrawRequest removes the request, unless another request has replaced it.
func (s *Store) WithdrawRequest(ctx context.Context, asked record.Asked) error {
	return s.changeRequest(ctx, func(stored *corev1.ConfigMap) (string, error) {
		if now := decodeRequest(stored); now.Verb != asked.Verb || now.Run != asked.Run || now.By != asked.By || !now.At.Equal(asked.At) {
			return stored.Data[keyRequest], nil
		}
		return "", nil
	})
}

// changeRequest changes only the request. It tries again if another process has written the ConfigMap in between, or if an answer is
// lost.
func (s *Store) changeRequest(ctx context.Context, change func(*corev1.ConfigMap) (string, error)) error {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	isPassing := func(err error) bool { return apierrors.IsConflict(err) || isUnanswered(err) }
	err := retry.OnError(retry.DefaultBackoff, isPassing, func() error {
		stored, err := maps.Get(ctx, ObjectName(s.group), metav1.GetOptions{})
		if err != nil {
			return err
		}
		text, err := change(stored)
		if err != nil || text == stored.Data[keyRequest] {
			return err
		}
		next := stored.DeepCopy()
		next.Data[keyRequest] = text
		if text == "" {
			delete(next.Data, keyRequest)
		}
		if stored, err = maps.Update(ctx, next, metav1.UpdateOptions{FieldManager: FieldManager}); err == nil {
			s.adoptNewer(stored)
		}
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("writing a request to ConfigMap %s: %w", s.Name(), ErrNotRecorded)
	case err != nil:
		return fmt.Errorf("writing a request to ConfigMap %s: %w", s.Name(), AddAccessRemedy(err))
	}
	return nil
}

// LoadRecords returns the records of all groups in a namespace, by group name. For records that cannot be read it returns the
// errors, so that one bad record does not stop the commands about other groups.
func LoadRecords(ctx context.Context, client kubernetes.Interface, namespace string) (records map[string]record.Record, unreadable map[string]error, err error) {
	list, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: LabelManagedBy + "=" + FieldManager})
	if err != nil {
		return nil, nil, fmt.Errorf("listing the records of upgrades in namespace %q: %w", namespace, AddAccessRemedy(err))
	}
	records, unreadable = decodeRecords(list.Items)
	return records, unreadable, nil
}

// decodeRecords returns the records by group name, and the errors of the records that cannot be read.
func decodeRecords(maps []corev1.ConfigMap) (records map[string]record.Record, unreadable map[string]error) {
	records, unreadable = map[string]record.Record{}, map[string]error{}
	for i := range maps {
		group := maps[i].Data[keyGroup]
		if record, err := DecodeRecord(&maps[i]); err != nil {
			unreadable[group] = err
		} else {
			records[group] = record
		}
	}
	return records, unreadable
}
