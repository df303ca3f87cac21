package userdata

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"slices"

	"github.com/drover-project/drover/clouds"
)

// TooLargeError means that user data does not fit.
type TooLargeError struct {
	Driver string
	Size   int
	Limit  int
}

// Error names the size of the data and the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the user data has %d bytes, driver %s takes at most %d", e.Size, e.Driver, e.Limit)
}

// UserData merges the inputs and fits the result into the limits of a driver's cloud, zipped if
// necessary and accepted by the cloud. Errors can be *TooLargeError and ErrCannotMerge.
func UserData(driver string, input Input) ([]byte, error) {
	data, err := Merge(input)
	if err != nil {
		return nil, err
	}
	return Fit(driver, data)
}

// Fit returns data, or data zipped, so that the driver's cloud takes it.
func Fit(driver string, data []byte) ([]byte, error) {
	takes := clouds.Of(driver).UserData
	if takes.CloudConfigOnly && !slices.Contains([]Format{CloudConfig, Empty}, Detect(data)) {
		return nil, fmt.Errorf("%w into a single #cloud-config, and driver %s takes nothing else", ErrCannotMerge, driver)
	}
	if at := slices.IndexFunc(takes.Breaks, func(text string) bool { return bytes.Contains(data, []byte(text)) }); at >= 0 {
		return nil, fmt.Errorf("%w for driver %s, which makes a line break of every %s that is written out: write the text over several lines, or put it into write_files in base64",
			ErrCannotMerge, driver, takes.Breaks[at])
	}
	largest := cmp.Or(takes.Limit.Bytes, MaxBytes)
	size := takes.Limit.Measure(data)
	if size <= largest {
		return data, nil
	}
	if takes.Limit.Gzip {
		zipped, err := zip(data)
		if err != nil {
			return nil, err
		}
		if size = takes.Limit.Measure(zipped); size <= largest {
			return zipped, nil
		}
	}
	return nil, &TooLargeError{Driver: driver, Size: size, Limit: largest}
}

func zip(data []byte) ([]byte, error) {
	var out bytes.Buffer
	writer, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("zipping user data: %w", err)
	}
	_, err = writer.Write(data)
	if err = errors.Join(err, writer.Close()); err != nil {
		return nil, fmt.Errorf("zipping user data: %w", err)
	}
	return out.Bytes(), nil
}
