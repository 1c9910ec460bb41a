package packages

import "github.com/remit-olm/remit/pkg/catalog"

// Limits for displayed data, in bytes. Data that exceeds them is omitted: a package is then listed without its
// descriptions.
const (
	// MaxIconBytes bounds the base64-encoded text of one icon.
	MaxIconBytes = 1 << 20
	// MaxManifestBytes bounds one PackageManifest without its icons.
	MaxManifestBytes = 2 << 20
	// memoryPerByte times MaxManifestBytes bounds the memory of one PackageManifest. Ordinary descriptions take about as much
	// memory as text.
	memoryPerByte = 2
	// MaxGlobalBytes bounds the records of one global catalog.
	MaxGlobalBytes = 256 << 20
	// MaxTenantBytes bounds the records of one catalog in another namespace.
	MaxTenantBytes = 16 << 20
	// MaxGlobalPackages bounds the number of packages of one global catalog that are displayed.
	MaxGlobalPackages = catalog.MaxPackages
	// MaxTenantPackages bounds the number of packages of one catalog in another namespace that are displayed.
	MaxTenantPackages = 20_000
	// maxLabels and maxLabelBytes bound the labels of a CatalogSource that its packages inherit.
	maxLabels, maxLabelBytes = 32, 2 << 10
	// maxText bounds the length of a name in a label.
	maxText = 253
	// maxSupported bounds the number of architectures, and of operating systems, in the labels.
	maxSupported = 8
	// maxParse bounds the estimated memory for decoding the description of one bundle. Those of test/corpus need at most 2 MiB.
	maxParse = 16 << 20
	// maxEntries bounds the number of entries that are listed for one channel.
	maxEntries = 2000
)

// MaxRecordBytes bounds one record: a manifest, and the icons of its channels.
const MaxRecordBytes = MaxManifestBytes + 4*MaxIconBytes + 1<<20
