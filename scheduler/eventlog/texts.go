package eventlog

// Texts: what is kept of each message, in little memory.

import (
	"encoding/binary"
	"strings"

	"zsched/scheduler"
	"zsched/scheduler/store"
)

// texts keeps a text for each of many messages, in blocks: a text takes little more than its
// length, and the garbage collector has few objects to look at. Nothing in a block changes. When
// less than half of it is in use, the rest moves to the block that is being filled.
//
// An item of a block is the id of the message, the length of the text, and the text.
type texts struct {
	blocks  []block // the first one is empty, because no item has the number 0
	free    []int   // indexes of blocks that are not in use
	filling strings.Builder
	last    int // the index of the block that is being filled
	index   store.SlabIndex[place]
}

type block struct {
	text string
	live int // bytes of items in the index
}

// place is the number of an item: the index of its block, and in the lower half where it begins.
// That is enough for 4 GB.
type place uint32

func placeOf(n, begin int) place { return place(n<<placeBits | begin) }

func (p place) split() (n, begin int) { return int(p >> placeBits), int(p & (blockSize - 1)) }

// A block has at least blockSize bytes, and items begin in the first blockSize of them.
const (
	placeBits = 16
	blockSize = 1 << placeBits
)

func newTexts() *texts {
	t := &texts{blocks: make([]block, 1)}
	t.index = store.NewSlabIndex(func(p place) uint64 {
		id, _, _ := t.at(p)
		return uint64(id)
	})
	return t
}

// at returns an item, and its length in the block.
func (t *texts) at(p place) (id scheduler.MessageID, text string, size int) {
	n, begin := p.split()
	item := t.blocks[n].text[begin:]
	header := []byte(item[:min(len(item), 2*binary.MaxVarintLen64)])
	number, idSize := binary.Uvarint(header)
	length, lengthSize := binary.Uvarint(header[idSize:])
	before := idSize + lengthSize
	size = before + int(length)
	return scheduler.MessageID(number), item[before:size], size
}

func (t *texts) find(id scheduler.MessageID) (text string, found bool) {
	p := t.index.Find(uint64(id))
	if p == 0 {
		return "", false
	}
	_, text, _ = t.at(p)
	return text, true
}

// add adds the text of a message that has none.
func (t *texts) add(id scheduler.MessageID, text string) {
	header := binary.AppendUvarint(nil, uint64(id))
	header = binary.AppendUvarint(header, uint64(len(text)))
	size, full := len(header)+len(text), t.last
	if room := t.filling.Cap() - t.filling.Len(); room < size || t.filling.Len() >= blockSize {
		t.begin(size)
	}
	p := placeOf(t.last, t.filling.Len())
	t.filling.Write(header)
	t.filling.WriteString(text)
	b := &t.blocks[t.last]
	b.text = t.filling.String()
	b.live += size
	t.index.Add(p)
	if full != t.last {
		t.squeeze(full)
	}
}

// begin begins a block that has room for an item.
func (t *texts) begin(size int) {
	t.filling = strings.Builder{}
	t.filling.Grow(max(blockSize, size))
	if last := len(t.free) - 1; last >= 0 {
		t.last, t.free = t.free[last], t.free[:last]
		return
	}
	t.last = len(t.blocks)
	t.blocks = append(t.blocks, block{})
}

// remove removes the text of a message, if there is one.
func (t *texts) remove(id scheduler.MessageID) {
	p := t.index.Find(uint64(id))
	if p == 0 {
		return
	}
	_, _, size := t.at(p)
	n, _ := p.split()
	t.index.Remove(p)
	t.blocks[n].live -= size
	if n != t.last {
		t.squeeze(n)
	}
}

// squeeze frees a block if less than half of it is in use.
func (t *texts) squeeze(n int) {
	total := len(t.blocks[n].text)
	if n == 0 || 2*t.blocks[n].live >= total {
		return
	}
	for begin := 0; begin < total; {
		p := placeOf(n, begin)
		id, text, size := t.at(p)
		if t.index.Find(uint64(id)) == p {
			t.index.Remove(p)
			t.add(id, text)
		}
		begin += size
	}
	t.blocks[n] = block{}
	t.free = append(t.free, n)
}
