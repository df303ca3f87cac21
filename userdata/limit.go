package userdata

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
)

// Limits of the user data a driver's cloud takes.
type Limits struct {
	// Bytes is the largest size, measured as the cloud does.
	Bytes int
	// Base64 tells that the cloud measures the base64 form.
	Base64 bool
	// Gzip tells that the driver hands bytes over unchanged and cloud-init unzips them at this cloud.
	Gzip bool
	// CloudConfigOnly tells that the driver rewrites the data and understands nothing but #cloud-config.
	CloudConfigOnly bool
}

// TooLargeError means that user data does not fit.
type TooLargeError struct {
	Driver string
	Size   int
	Limit  int
}

// Error says how far the data is over the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the user data has %d bytes, driver %s takes at most %d", e.Size, e.Driver, e.Limit)
}

// Limit returns the limits of a driver's user data; an unknown driver has none but MaxBytes.
func Limit(driver string) Limits {
	switch driver {
	case "digitalocean":
		// docs.digitalocean.com, API reference, POST /v2/droplets: user_data "must not exceed 64 KiB in size". It travels in
		// a JSON string, which cannot hold gzip.
		return Limits{Bytes: 64 << 10}
	case "amazonec2":
		// AWS, "Run commands when you launch an EC2 instance with user data input": 16 KB, raw, before base64.
		return Limits{Bytes: 16 << 10, Gzip: true}
	case "azure":
		// Azure REST API, Virtual Machines, OSProfile.customData: "The maximum length of the binary array is 65535 bytes", base64.
		return Limits{Bytes: 65535, Gzip: true}
	case "google":
		// Compute Engine, "About VM metadata": a value has at most 256 KB; the driver sends it as a JSON string.
		return Limits{Bytes: 256 << 10}
	case "openstack", "rackspace":
		// OpenStack Compute API, "Create Server", user_data: "maximum size is 65535 bytes", base64 encoded.
		return Limits{Bytes: 65535, Base64: true, Gzip: true}
	case "exoscale":
		// Exoscale API v2, create-instance: "user-data: Instance Cloud-init user-data (base64 encoded)", up to 32,768 characters.
		return Limits{Bytes: 32 << 10, Base64: true, Gzip: true}
	case "vmwarevsphere":
		// The driver parses the data as YAML, adds its user, and puts it on an ISO image: no limit but sense.
		return Limits{Bytes: MaxBytes, CloudConfigOnly: true}
	case "pod":
		// The data becomes a Secret, whose limit is 1 MiB with all it holds.
		return Limits{Bytes: 900 << 10}
	}
	return Limits{Bytes: MaxBytes}
}

func (l Limits) measure(data []byte) int {
	if l.Base64 {
		return base64.StdEncoding.EncodedLen(len(data))
	}
	return len(data)
}

// UserData merges the inputs and fits the result into the limits of a driver's cloud, zipped if need be and the cloud
// takes it. Errors can be *TooLargeError and ErrCannotMerge.
func UserData(driver string, input Input) ([]byte, error) {
	data, err := Merge(input)
	if err != nil {
		return nil, err
	}
	return Fit(driver, data)
}

// Fit returns data, or data zipped, so that the driver's cloud takes it.
func Fit(driver string, data []byte) ([]byte, error) {
	limits := Limit(driver)
	if format := Detect(data); limits.CloudConfigOnly && format != CloudConfig && format != Empty {
		return nil, fmt.Errorf("%w into a single #cloud-config, and driver %s takes nothing else", ErrCannotMerge, driver)
	}
	size := limits.measure(data)
	if size <= limits.Bytes {
		return data, nil
	}
	if limits.Gzip {
		zipped, err := zip(data)
		if err != nil {
			return nil, err
		}
		if size = limits.measure(zipped); size <= limits.Bytes {
			return zipped, nil
		}
	}
	return nil, &TooLargeError{Driver: driver, Size: size, Limit: limits.Bytes}
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
