package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubectl/pkg/cmd/util"

	"github.com/drover-project/drover/cmd/drover/command"
)

// look is a command that is run again and again until its output is as wished.
type look func() ([]byte, error)

// hereLook is the look of a command that need not be a process of its own: kubectl get, drover get and drover why. Stories look hundreds of times, and
// starting either takes a third of a second of CPU time, which what they look at then lacks. nil when it must be one.
func hereLook(dir, kubeconfig string, words []string) look {
	program, args := words[0], words[1:]
	if len(args) > 2 && args[0] == "--kubeconfig" {
		kubeconfig, args = args[1], args[2:]
	}
	if !filepath.IsAbs(kubeconfig) {
		kubeconfig = filepath.Join(dir, kubeconfig)
	}
	switch {
	case len(args) == 0:
		return nil
	case program == "kubectl" && args[0] == "get":
		return kubectlGet(dir, kubeconfig, args[1:])
	case program == "drover" && (args[0] == "get" || args[0] == "why"):
		return droverLook(args, kubeconfig)
	}
	return nil
}

// fatal is what kubectl says when it would end its process.
type fatal string

func init() {
	util.BehaviorOnFatal(func(message string, _ int) { panic(fatal(message)) })
}

func kubectlGet(dir, kubeconfig string, args []string) look {
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.CacheDir = &kubeconfig, new(filepath.Join(dir, ".kube", "cache"))
	return func() (text []byte, err error) {
		out := &bytes.Buffer{}
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out}
		defer func() {
			switch message := recover().(type) {
			case nil:
			case fatal:
				text, err = append(out.Bytes(), message...), errors.New(string(message))
			default:
				panic(message)
			}
		}()
		cmd := get.NewCmdGet("kubectl", util.NewFactory(flags), streams)
		flags.AddFlags(cmd.Flags())
		cmd.SetArgs(args)
		cmd.SetOut(out)
		cmd.SetErr(out)
		err = cmd.Execute()
		return out.Bytes(), err
	}
}

// droverLook names the kubeconfig by a flag, which drover repeats in the commands that it advises; they are as if the environment had named it.
func droverLook(args []string, kubeconfig string) look {
	args = append(slices.Clone(args), "--kubeconfig", kubeconfig)
	return func() ([]byte, error) {
		out := &bytes.Buffer{}
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out}
		code := command.Execute(context.Background(), command.Options{Name: "drover", Streams: streams}, args)
		text := bytes.ReplaceAll(out.Bytes(), []byte(" --kubeconfig "+kubeconfig), nil)
		if code != 0 {
			return text, fmt.Errorf("drover ended with %d", code)
		}
		return text, nil
	}
}
