package logging_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/lib/logging"
)

func TestInfoIsALineOfJSON(t *testing.T) {
	var out bytes.Buffer
	log := logging.New(&out, false)
	log.Info("Creating Deployment", "Deployment", "ns/name")
	log.V(1).Info("not shown")

	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "Creating Deployment", line["msg"])
	require.Equal(t, "ns/name", line["Deployment"])
}

func TestDebugShowsDetails(t *testing.T) {
	var out bytes.Buffer
	logging.New(&out, true).V(1).Info("Shown")
	require.Contains(t, out.String(), "Shown")
}
