// Package crd determines which versions of a changed CustomResourceDefinition may reject existing objects. It only
// compares schemas; package existing reads the objects.
package crd
