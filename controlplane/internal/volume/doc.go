// Package volume lays out the volumes of a Pod in ordinary directories.
//
//	<pod dir>/volumes/NAME            one directory a volume, shared by the containers
//	<pod dir>/roots/CONTAINER/a/b     a link to the volume mounted at /a/b: the container's REMIT_ROOT is roots/CONTAINER
//
// Content that follows the API (Secrets, ConfigMaps, downward API, tokens) is replaced the way the kubelet does it, by renaming a
// `..data` link, so that file watchers in operators see the events they were written for. Kinds without a meaning here (hostPath,
// claims, CSI) are empty directories that last as long as the Pod.
package volume
