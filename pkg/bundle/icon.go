package bundle

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
)

// mediaTypeOfImage is how an image's is written; what else could follow it ends up in a page.
var mediaTypeOfImage = regexp.MustCompile(`^image/[a-zA-Z0-9][a-zA-Z0-9.+-]{0,63}$`)

// checkIcons refuses what a console, which shows the ClusterServiceVersion to everybody, might take for a page or a
// script of its own (escape suite 94). An icon without data shows nothing.
func checkIcons(csv *operatorsv1alpha1.ClusterServiceVersion) error {
	for i, icon := range csv.Spec.Icon {
		if icon.Data == "" && icon.MediaType == "" {
			continue
		}
		if !mediaTypeOfImage.MatchString(icon.MediaType) {
			return fmt.Errorf("ClusterServiceVersion %q: spec.icon[%d].mediatype %.100q is not that of an image", csv.Name, i, icon.MediaType)
		}
		if _, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(icon.Data), "")); err != nil {
			return fmt.Errorf("ClusterServiceVersion %q: spec.icon[%d].base64data is not base64: %w", csv.Name, i, err)
		}
	}
	return nil
}
