-- share reports a node's demand for a limit on sessions and returns its part.
-- KEYS[1] hash: node -> "expiry want grant limit busy target number nonce"
-- KEYS[2] epoch: "id born"
-- ARGV    node, nonce, number, limit, want, busy, ttl, rotate, returning (0 or 1)
-- Reply   {0}: an older call than one that was carried out
--         {1, grant, allowed, nodes, target, waiting, change, born, limit}
-- grant is what is kept for the node, at least its busy sessions; allowed is how many
-- it may have before it starts another one, and target how many it may have when the
-- others have given back what they owe.
-- Times are in ms of the server's clock. change is the time until the part changes
-- by itself, or 0. waiting says that another node wants more than it has.
local me, nonce, number = ARGV[1], ARGV[2], tonumber(ARGV[3])
local limit, want, busy = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local ttl, rotate = tonumber(ARGV[7]), tonumber(ARGV[8])
local function entry(e, w, g, l, b, target, num, id)
  return string.format('%.0f %d %d %d %d %d %s %s', e, w, g, l, b, target, num, id)
end

local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local epoch, born = redis.call('GET', KEYS[2]), now
if epoch then
  born = tonumber(string.match(epoch, '(%d+)$'))
else
  redis.call('SET', KEYS[2], nonce .. ' ' .. string.format('%.0f', now))
end
want = math.max(want, busy)

-- Read the nodes. Ghosts are processes that ended with sessions, whose agents may
-- still be delivering; their names contain "~".
local nodes, gone, changed, others, ghosts = {}, {}, {}, 0, 0
local least = want > 0 and limit or math.huge
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local name = all[i]
  local e, w, g, l, b, target, num, id = string.match(all[i + 1], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
  e, w, g, l, b = tonumber(e), tonumber(w), tonumber(g), tonumber(l), tonumber(b)
  if e <= now then
    gone[#gone + 1] = name
  elseif name == me then
    if tonumber(num) >= number then return {0} end
    if id ~= nonce and b > 0 then
      changed[#changed + 1] = me .. '~' .. id
      changed[#changed + 1] = entry(now + ttl, b, b, l, b, b, num, id)
      others, ghosts = others + b, ghosts + b
    end
  elseif string.find(name, '~', 1, true) then
    others, ghosts = others + g, ghosts + g
  else
    others = others + g
    if w > 0 then
      least = math.min(least, l)
      nodes[#nodes + 1] = {name, w, e, g, l, b, tonumber(target), num, id, 0}
    end
  end
end
if want > 0 then nodes[#nodes + 1] = {me, want} end
if least < math.huge then limit = least end

-- Divide the limit: max-min, or by turns if there are more nodes than places.
local n, left, change = #nodes, math.max(0, limit - ghosts), 0
local target, waiting = 0, 0
if n > left then
  table.sort(nodes, function(a, b) return a[1] < b[1] end)
  local turn = math.floor(now / rotate)
  change = (turn + 1) * rotate - now
  for i, e in ipairs(nodes) do
    e[10] = (i + turn) % n < left and 1 or 0
  end
else
  table.sort(nodes, function(a, b) if a[2] ~= b[2] then return a[2] < b[2] end return a[1] < b[1] end)
  for i, e in ipairs(nodes) do
    e[10] = math.min(e[2], math.floor(left / (n - i + 1)))
    left = left - e[10]
  end
end
for _, e in ipairs(nodes) do if e[1] == me then target = e[10] end end
local grant = math.max(busy, math.min(target, limit - others), 0)
if now - born < ttl or ARGV[9] == '1' then
  grant, target = busy, busy -- a new epoch, or the node was without the store
  change = math.max(0, born + ttl - now)
end

-- Record for the others what they have to give back or may now have.
for _, e in ipairs(nodes) do
  if e[1] ~= me then
    if e[2] > e[4] then waiting = 1 end
    if e[10] ~= e[7] then
      changed[#changed + 1] = e[1]
      changed[#changed + 1] = entry(e[3], e[2], e[4], e[5], e[6], e[10], e[8], e[9])
    end
  end
end
if #gone > 0 then redis.call('HDEL', KEYS[1], unpack(gone)) end
redis.call('HSET', KEYS[1], me, entry(now + ttl, want, grant, tonumber(ARGV[4]), busy, target, ARGV[3], nonce), unpack(changed))
redis.call('PEXPIRE', KEYS[1], ttl * 4)
return {1, grant, math.max(0, math.min(target, limit - others)), n, target, waiting, change, born, limit}
