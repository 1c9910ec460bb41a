package bundle

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
)

// mediaTypeOfImage matches image media types strictly, because consoles insert them into pages.
var mediaTypeOfImage = regexp.MustCompile(`^image/[a-zA-Z0-9][a-zA-Z0-9.+-]{0,63}$`)

// checkIcons refuses icons that a console could interpret as a page or a script (escape suite 94). Icons with neither
// data nor a media type are kept. Icons whose data is not valid base64 are removed with a warning.
func checkIcons(csv *operatorsv1alpha1.ClusterServiceVersion) (warnings []string, err error) {
	var kept []operatorsv1alpha1.Icon
	for i, icon := range csv.Spec.Icon {
		if icon.Data == "" && icon.MediaType == "" {
			kept = append(kept, icon)
			continue
		}
		if !mediaTypeOfImage.MatchString(icon.MediaType) {
			return nil, fmt.Errorf("ClusterServiceVersion %q: spec.icon[%d].mediatype %.100q is not an image media type", csv.Name, i, icon.MediaType)
		}
		if _, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(icon.Data), "")); err != nil {
			warnings = append(warnings, fmt.Sprintf("omitted spec.icon[%d] of ClusterServiceVersion %s: its base64data is not valid base64", i, csv.Name))
			continue
		}
		kept = append(kept, icon)
	}
	csv.Spec.Icon = kept
	return warnings, nil
}
