-- learn records what a node has found about a destination.
-- KEYS[1] hash: state (dead or alive), until in ms, window, reason, node, n
-- ARGV    state, ms until the destination is tried again, window, reason, node,
--         ms for which it is kept after that
-- Reply   n, which counts the calls for that destination
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('HSET', KEYS[1], 'state', ARGV[1], 'until', string.format('%.0f', now + tonumber(ARGV[2])),
  'window', ARGV[3], 'reason', ARGV[4], 'node', ARGV[5])
local n = redis.call('HINCRBY', KEYS[1], 'n', 1)
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) + tonumber(ARGV[6]))
return n
