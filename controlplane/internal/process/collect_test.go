package process

import "github.com/stretchr/testify/assert"

type collect = assert.CollectT
