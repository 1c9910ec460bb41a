// Package crd says what a CustomResourceDefinition changes for the objects that exist of it: in which versions
// it may refuse what the live one takes. It compares schemas and nothing else; package existing looks at the
// objects.
package crd
