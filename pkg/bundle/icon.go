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
// script of its own (escape suite 94). An icon without data shows nothing. One whose data is not base64 is removed, with a
// warning.
func checkIcons(csv *operatorsv1alpha1.ClusterServiceVersion) (warnings []string, err error) {
	var kept []operatorsv1alpha1.Icon
	for i, icon := range csv.Spec.Icon {
		if icon.Data == "" && icon.MediaType == "" {
			kept = append(kept, icon)
			continue
		}
		if !mediaTypeOfImage.MatchString(icon.MediaType) {
			return nil, fmt.Errorf("ClusterServiceVersion %q: spec.icon[%d].mediatype %.100q is not that of an image", csv.Name, i, icon.MediaType)
		}
		if _, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(icon.Data), "")); err != nil {
			warnings = append(warnings, fmt.Sprintf("left out spec.icon[%d] of ClusterServiceVersion %s: its base64data is not base64", i, csv.Name))
			continue
		}
		kept = append(kept, icon)
	}
	csv.Spec.Icon = kept
	return warnings, nil
}
