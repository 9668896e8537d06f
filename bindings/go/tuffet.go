// Package tuffet runs small language models on the machine in front of you, by libtuffet:
//
//	model, err := tuffet.Open("model.gguf", nil)
//	...
//	session, err := model.NewSession(nil)
//	...
//	text, err := session.Generate(ctx, "Once upon a time", 50, &tuffet.Sampler{Temperature: 0.8})
//	...
//	for text.Next() {
//		fmt.Print(text.Text())
//	}
//	err = text.Err()
//
// Threads: any number of goroutines may use a Model, and any number of sessions may share it. Use a
// Session, its Generator and a Sampler from one goroutine at a time.
//
// The manual of the library is tuffet.h.
package tuffet

// #cgo pkg-config: tuffet
// #include <tuffet.h>
import "C"

import "fmt"

// Status is why a call failed. Statuses are errors, for errors.Is(err, tuffet.Full).
type Status int

// The statuses of tuffet.h, which explains them.
const (
	Argument    Status = C.TFT_ERR_ARG
	NoMemory    Status = C.TFT_ERR_NOMEM
	IO          Status = C.TFT_ERR_IO
	Format      Status = C.TFT_ERR_FORMAT
	Unsupported Status = C.TFT_ERR_UNSUPPORTED
	Full        Status = C.TFT_ERR_FULL
	Device      Status = C.TFT_ERR_DEVICE
	Numbers     Status = C.TFT_ERR_NUMBERS
)

func (s Status) Error() string {
	return C.GoString(C.tft_status_text(C.enum_tft_status(s)))
}

// Error is a status of the library and one line for a person. It unwraps to its Status.
type Error struct {
	Status  Status
	OS      int // errno of the system call that failed, or 0
	Message string
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the status.
func (e *Error) Unwrap() error { return e.Status }

func argument(format string, args ...interface{}) error {
	return &Error{Status: Argument, Message: fmt.Sprintf(format, args...)}
}

// failure is the error of a call that returned code; e may be nil, or of another call.
func failure(code C.enum_tft_status, e *C.struct_tft_error) error {
	if code == C.TFT_OK {
		return nil
	}
	err := &Error{Status: Status(code)}
	if e != nil && e.code == code {
		err.OS = int(e.os)
		err.Message = C.GoString(&e.msg[0])
	}
	if err.Message == "" {
		err.Message = err.Status.Error()
	}
	return err
}

// Version is that of the library, such as "1.2.3".
func Version() string { return C.GoString(C.tft_version()) }

// CPUName is the best set of kernels that this CPU has, such as "avx512" or "neon".
func CPUName() string { return C.GoString(C.tft_cpu_name()) }
