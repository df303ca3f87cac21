package sshkeys

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
)

// Limits of a machine directory's archive.
const (
	// MaxArchiveBytes bounds the compressed archive, because of the limit of a Secret.
	MaxArchiveBytes = 1 << 20
	// MaxArchiveContent bounds the sum of all files' sizes.
	MaxArchiveContent = 8 << 20
	// MaxArchiveFiles bounds their number, directories included.
	MaxArchiveFiles = 256
)

// skippedSuffixes are files that rancher/machine leaves out of its archive: images of disks, which
// drivers can make again.
var skippedSuffixes = []string{".iso", ".tar.gz", ".vmdk", ".img"}

// File is a regular file of a machine directory.
type File struct {
	// Path is relative to the directory that holds all machines: <machine>/config.json.
	Path string
	// Mode is its permission bits.
	Mode int64
	// Content of the file.
	Content []byte
}

// ReadArchive reads the archive of a machines directory as rancher/machine writes it: a tar.gz
// whose entries carry absolute names under any home directory. Only regular files and directories
// are accepted, and nothing outside the directory.
func ReadArchive(archive []byte) ([]File, error) {
	if len(archive) > MaxArchiveBytes {
		return nil, fmt.Errorf("reading the state's archive: %d bytes, at most %d are accepted", len(archive), MaxArchiveBytes)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("reading the state's archive: %w", err)
	}
	// The limit applies to the output of gzip, headers and padding included, so that no small
	// archive can grow large.
	limited := &io.LimitedReader{R: unzipped, N: MaxArchiveContent + MaxArchiveFiles*2048}
	files, err := readEntries(tar.NewReader(limited))
	if err == nil {
		// The checksum stands at the end of gzip, behind the end of tar.
		_, err = io.Copy(io.Discard, limited)
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("reading the state's archive: its content is larger than %d bytes", MaxArchiveContent)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state's archive: %w", err)
	}
	return files, nil
}

func readEntries(entries *tar.Reader) ([]File, error) {
	var files []File
	total := int64(0)
	for count := 0; ; count++ {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if count == MaxArchiveFiles {
			return nil, fmt.Errorf("more than %d entries", MaxArchiveFiles)
		}
		total += header.Size
		if header.Size < 0 || total > MaxArchiveContent {
			return nil, fmt.Errorf("content larger than %d bytes", MaxArchiveContent)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if header.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("the entry %q is neither a file nor a directory", header.Name)
		}
		name, err := relativeName(header.Name)
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(io.LimitReader(entries, header.Size))
		if err != nil {
			return nil, err
		}
		files = append(files, File{Path: name, Mode: header.Mode & 0o777, Content: content})
	}
}

// relativeName cuts the home directory of the archive's author: all up to the machines directory,
// which rancher/machine names .docker/machine/machines or <storage path>/machines.
func relativeName(name string) (string, error) {
	if slices.Contains(strings.Split(name, "/"), "..") {
		return "", fmt.Errorf("the entry %q leads outside the directory", name)
	}
	clean := path.Clean("/" + name)
	// The longer name is tried first: a machine, or a directory of a machine, may itself be called
	// machines.
	for _, directory := range []string{"/.docker/machine/machines/", "/machines/"} {
		if index := strings.LastIndex(clean, directory); index >= 0 {
			clean = clean[index+len(directory):]
			break
		}
	}
	clean = strings.TrimPrefix(clean, "/")
	if err := checkName(clean); err != nil {
		return "", err
	}
	return clean, nil
}

func checkName(name string) error {
	odd := func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar || r == '\\' }
	if !fs.ValidPath(name) || name == "." || len(name) > 512 || strings.ContainsFunc(name, odd) {
		return fmt.Errorf("the entry %q has no usable name", name)
	}
	return nil
}

// WriteArchive writes files as rancher/machine does: under root, the absolute machines directory,
// with directories first. The same files always give the same bytes.
func WriteArchive(root string, files []File) ([]byte, error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	writer := tar.NewWriter(zipped)
	made := map[string]bool{}
	for _, file := range files {
		if IsSkipped(file.Path) {
			continue
		}
		if err := checkName(file.Path); err != nil {
			return nil, fmt.Errorf("writing the state's archive: %w", err)
		}
		if err := writeFile(writer, root, file, made); err != nil {
			return nil, fmt.Errorf("writing the state's archive: %w", err)
		}
	}
	if err := errors.Join(writer.Close(), zipped.Close()); err != nil {
		return nil, fmt.Errorf("writing the state's archive: %w", err)
	}
	if out.Len() > MaxArchiveBytes {
		return nil, fmt.Errorf("writing the state's archive: %d bytes, at most %d fit into a Secret", out.Len(), MaxArchiveBytes)
	}
	return out.Bytes(), nil
}

// IsSkipped reports whether rancher/machine leaves a file of this name out.
func IsSkipped(name string) bool {
	return slices.ContainsFunc(skippedSuffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}

func writeFile(writer *tar.Writer, root string, file File, made map[string]bool) error {
	var directories []string
	for dir := path.Dir(file.Path); dir != "." && !made[dir]; dir = path.Dir(dir) {
		made[dir] = true
		directories = append(directories, dir)
	}
	for _, dir := range slices.Backward(directories) {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: path.Join(root, dir) + "/", Mode: 0o700, Format: tar.FormatPAX}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: path.Join(root, file.Path), Mode: file.Mode, Size: int64(len(file.Content)), Format: tar.FormatPAX,
	}
	if err := writer.WriteHeader(header); err != nil {
		return err
	}
	_, err := writer.Write(file.Content)
	return err
}
