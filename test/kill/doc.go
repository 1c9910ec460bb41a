// Package kill has the stories of a program that is killed at every point of its work: SIGKILL, after
// the API server has done what it was asked and before the program learns of it.
package kill
