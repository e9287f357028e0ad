package bridge

import "encoding/json"

// Codec turns values into payloads and back. Both methods must be safe for
// concurrent use. The payload is opaque to weir and to Redis; encrypt it here if it must
// not be readable in the store.
type Codec[T any] interface {
	// Encode returns the payload. After an error the caller of Submit still owns the job.
	Encode(value T) ([]byte, error)
	// Decode returns the value. After an error the job goes dead with that reason; the
	// payload stays with it for the operator.
	Decode(payload []byte) (T, error)
}

// JSON is the codec of kinds that name none.
type JSON[T any] struct{}

// Encode marshals value.
func (JSON[T]) Encode(value T) ([]byte, error) { return json.Marshal(value) }

// Decode unmarshals payload.
func (JSON[T]) Decode(payload []byte) (value T, err error) {
	err = json.Unmarshal(payload, &value)
	return value, err
}

// Bytes is the codec that leaves payloads as they are.
type Bytes struct{}

// Encode returns value itself; it must not be changed afterwards.
func (Bytes) Encode(value []byte) ([]byte, error) { return value, nil }

// Decode returns payload itself.
func (Bytes) Decode(payload []byte) ([]byte, error) { return payload, nil }
