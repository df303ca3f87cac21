//go:build !linux

package agent

import (
	"os"
	"os/exec"
)

// defaultCommand is run in the folder of an instruction that names none.
const defaultCommand = "run.ps1"

// shell runs a script that names no program for it.
var shell = []string{"powershell.exe", "-File"}

func isOwner(os.FileInfo, owner) bool { return true }

func chown(string, owner) error { return nil }

func syncFolder(string) error { return nil }

func ownGroup(*exec.Cmd) {}

func killLeft(string) {}

func killGroup(*exec.Cmd) {}
