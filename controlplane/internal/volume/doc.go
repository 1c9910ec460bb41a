// Package volume lays out the volumes of a Pod in ordinary directories.
//
//	<pod dir>/volumes/NAME            one directory per volume, shared by the containers
//	<pod dir>/roots/CONTAINER/a/b     a link to the volume mounted at /a/b: the container's REMIT_ROOT is roots/CONTAINER
//
// Content from the API (Secrets, ConfigMaps, downward API, tokens) is replaced as the kubelet does, by renaming a
// `..data` link, so that file watchers in operators see the events that they expect. Unsupported kinds (hostPath,
// claims, CSI) are empty directories that last as long as the Pod.
package volume
