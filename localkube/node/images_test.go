package node

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPauseImage(t *testing.T) {
	if _, err := assets.ReadFile("assets/pause"); err != nil {
		t.Skip("built without the pause program: run go generate ./node")
	}
	image, err := pauseImage()
	require.NoError(t, err)
	config, err := image.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, []string{"/pause"}, config.Config.Entrypoint)
	require.Equal(t, "65535:65535", config.Config.User)
	again, err := pauseImage()
	require.NoError(t, err)
	first, err := image.Digest()
	require.NoError(t, err)
	second, err := again.Digest()
	require.NoError(t, err)
	require.Equal(t, first, second, "the image is reproducible")
}
