package capi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxResourceNodes bounds the YAML of one key of a ClusterResourceSet's ConfigMap or Secret; a network plugin with its CRDs has some 30,000 nodes.
const maxResourceNodes = 100_000

// resourceClient is what the controller of ClusterResourceSets reads with: their documents are expanded and decoded in our process, and some kilobytes of
// aliases are gigabytes.
type resourceClient struct {
	client.Client
	// one document is looked at at a time.
	mu *sync.Mutex
}

// Get implements client.Reader.
func (c resourceClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	switch read := obj.(type) {
	case *corev1.ConfigMap:
		for name, text := range read.Data {
			if err := c.check("ConfigMap", name, []byte(text)); err != nil {
				return err
			}
		}
	case *corev1.Secret:
		for name, data := range read.Data {
			if err := c.check("Secret", name, data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c resourceClient) check(kind, name string, content []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := checkResource(content); err != nil {
		return fmt.Errorf("key %s of the %s is not applied: %w", name, kind, err)
	}
	return nil
}

// checkResource refuses YAML that is more than it looks.
func checkResource(content []byte) error {
	documents := yaml.NewDecoder(bytes.NewReader(content))
	for nodes := 0; ; {
		var document yaml.Node
		if err := documents.Decode(&document); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return errors.New("its YAML cannot be read")
		}
		if nodes += countNodes(&document, maxResourceNodes); nodes > maxResourceNodes {
			return fmt.Errorf("it has YAML aliases or anchors, or more than %d nodes: write it out, or into several keys", maxResourceNodes)
		}
	}
}
