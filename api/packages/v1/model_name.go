package v1

// modelPrefix is the prefix of the names of the schemas in OpenAPI documents.
const modelPrefix = "com.coreos.operators.packages.v1."

// OpenAPIModelName returns the name of the schema in OpenAPI documents.
func (PackageManifest) OpenAPIModelName() string { return modelPrefix + "PackageManifest" }

// OpenAPIModelName returns the name of the schema in OpenAPI documents.
func (PackageManifestList) OpenAPIModelName() string { return modelPrefix + "PackageManifestList" }

// OpenAPIModelName returns the name of the schema in OpenAPI documents.
func (PackageCatalog) OpenAPIModelName() string { return modelPrefix + "PackageCatalog" }

// OpenAPIModelName returns the name of the schema in OpenAPI documents.
func (PackageCatalogList) OpenAPIModelName() string { return modelPrefix + "PackageCatalogList" }
