// Package budget limits what Remit builds from data of users. Two inputs that each fit into an object that the API
// server stores can be multiplied into gigabytes: the containers of a bundle by the environment of a Subscription, its
// Deployments by its annotations, or the channels of a catalog by a description. Code that multiplies such inputs first
// measures them ([Of]), computes the size of the product, and draws it from a [Budget], which refuses products that the API
// server would refuse anyway or that take too much memory. Only then is memory allocated.
//
// The package also limits the memory of single objects, because the three bytes of "{}," can take hundreds of bytes when
// they are decoded ([MaxDecodedBytes], [Refuse]).
package budget
