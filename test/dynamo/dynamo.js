// dynamo.js -- dynalite on loopback, with what it lacks and what can go wrong.
//
//   node dynamo.js [--plain] [--stay] [--port N] [--table NAME] [--secret KEY]
//
// Prints the port when it is ready, and ends with its standard input unless it
// is to stay. In front of dynalite, this adds TransactWriteItems and what a failed condition found
// (ReturnValuesOnConditionCheckFailure), and looks at signatures; --plain adds
// neither. A test that wants trouble posts to /_shim:
//
//   {"fail": N, "type": "...", "status": 400}  the next N requests fail so
//   {"only": "UpdateItem"}                     of those, this operation alone
//   {"after": N}                               and not the first N of them
//   {"hold": MS}                               answers come that much later
//   {"lose": N}                                the next N are done, and their
//                                              connection is cut
//   {"date": SECONDS}                          added to the header Date
//   {"flush": true}                            all rows are removed
//   {"serve": N}                               N more are served; the others
//                                              wait for ever, and are not done
// and reads what was asked so far: {"asked": N, "by": {...}, "stalled": N}.
'use strict'

const http = require('http')
const crypto = require('crypto')
const path = require('path')

const modules = process.env.SLUICE_NODE_MODULES ||
    path.join(__dirname, '../../build/node_modules')
const dynalite = require(path.join(modules, 'dynalite'))
const argv = process.argv.slice(2)
const option = (name, preset) =>
    argv.includes(name) ? argv[argv.indexOf(name) + 1] : preset
const plain = argv.includes('--plain')
const table = option('--table', 'jobseek-users')
const secret = option('--secret', 'secret')

let trouble = {}
let counts = { asked: 0, by: {}, stalled: 0 }
let inner

// ---- dynalite ----

function forward(target, body) {
    return new Promise((resolve, reject) => {
        const req = http.request({
            port: inner, host: '127.0.0.1', method: 'POST', agent,
            headers: {
                'content-type': 'application/x-amz-json-1.0',
                'x-amz-target': 'DynamoDB_20120810.' + target,
                'x-amz-date': '20260101T000000Z',
                authorization: 'AWS4-HMAC-SHA256 Credential=a/20260101/r/' +
                    'dynamodb/aws4_request, SignedHeaders=host, Signature=0'
            }
        }, res => {
            const parts = []
            res.on('data', part => parts.push(part))
            res.on('end', () => resolve({
                status: res.statusCode,
                text: Buffer.concat(parts).toString()
            }))
        })
        req.on('error', reject)
        req.end(body)
    })
}
const agent = new http.Agent({ keepAlive: true })

async function ask(target, body) {
    const { status, text } = await forward(target, JSON.stringify(body))
    return { status, json: JSON.parse(text) }
}

// ---- what it lacks ----

// One at a time: a transaction sees no other in between.
let turn = Promise.resolve()
function alone(work) {
    const mine = turn.then(work, work)
    turn = mine.catch(() => {})
    return mine
}

const keyOf = part => ({ TableName: part.TableName, Key: part.Key })

// Conditions as a transaction may have them: some of these, all by OR or all by
// AND. What is more is refused, rather than taken for true.
function isTrue(clause, row, part) {
    const name = word => part.ExpressionAttributeNames[word] || word
    const absent = /^attribute_not_exists\((\S+)\)$/.exec(clause)
    if (absent) return !(name(absent[1]) in row)
    const found = /^(\S+) (=|<=) (:\w+)$/.exec(clause)
    if (!found) throw new Error('no condition of ours: ' + clause)
    const has = row[name(found[1])]
    const want = part.ExpressionAttributeValues[found[3]]
    if (!has || !('N' in has) || !('N' in want)) return false
    return found[2] === '=' ? BigInt(has.N) === BigInt(want.N)
        : BigInt(has.N) <= BigInt(want.N)
}

async function holds(part) {
    if (!part.ConditionExpression) return true
    const { json } = await ask('GetItem',
        { ...keyOf(part), ConsistentRead: true })
    const row = json.Item || {}
    const all = part.ConditionExpression.split(' AND ')
    return all.length > 1 ? all.every(one => isTrue(one, row, part))
        : part.ConditionExpression.split(' OR ')
            .some(one => isTrue(one, row, part))
}

// DynamoDB refuses names and values that an expression does not use.
function used(words, expression) {
    const kept = Object.entries(words).filter(([word]) =>
        new RegExp(word + '\\b').test(expression))
    return kept.length ? Object.fromEntries(kept) : undefined
}

async function transact(body) {
    const reasons = await Promise.all(body.TransactItems.map(async item => ({
        Code: await holds(Object.values(item)[0]) ? 'None'
            : 'ConditionalCheckFailed'
    })))
    if (reasons.some(reason => reason.Code !== 'None'))
        return failure(400, 'com.amazonaws.dynamodb.v20120810' +
            '#TransactionCanceledException', 'Transaction cancelled',
        { CancellationReasons: reasons })
    await Promise.all(body.TransactItems.map(async item => {
        const [act, part] = Object.entries(item)[0]
        const one = { ...part }
        delete one.ConditionExpression
        if (act === 'Update') {
            one.ExpressionAttributeNames =
                used(part.ExpressionAttributeNames, part.UpdateExpression)
            one.ExpressionAttributeValues =
                used(part.ExpressionAttributeValues, part.UpdateExpression)
            const { status, json } = await ask('UpdateItem', one)
            if (status !== 200) throw new Error(JSON.stringify(json))
        } else if (act === 'Delete') {
            await ask('DeleteItem', keyOf(part))
        }
    }))
    return { status: 200, text: '{}' }
}

async function withOld(target, body, raw) {
    const answer = await forward(target, raw)
    if (answer.status !== 400 ||
        !answer.text.includes('ConditionalCheckFailedException') ||
        body.ReturnValuesOnConditionCheckFailure !== 'ALL_OLD')
        return answer
    const { json } = await ask('GetItem',
        { ...keyOf(body), ConsistentRead: true })
    return { status: 400,
        text: JSON.stringify({ ...JSON.parse(answer.text), Item: json.Item }) }
}

// ---- signatures ----

const hmac = (key, text) =>
    crypto.createHmac('sha256', key).update(text).digest()
const sha = text => crypto.createHash('sha256').update(text).digest('hex')

function isSigned(req, raw) {
    const found = /Credential=([^/]+)\/(\d+)\/([^/]+)\/([^/]+)\/aws4_request, SignedHeaders=([^,]+), Signature=(\w+)$/
        .exec(req.headers.authorization || '')
    if (!found) return false
    const [, , day, region, service, names, signature] = found
    const token = req.headers['x-amz-security-token']
    if (token && !names.split(';').includes('x-amz-security-token'))
        return false
    const text = ['POST', '/', '', ...names.split(';').map(name =>
        name + ':' + String(req.headers[name]).trim()), '', names, sha(raw)]
        .join('\n')
    const scope = [day, region, service, 'aws4_request'].join('/')
    const key = [region, service, 'aws4_request']
        .reduce(hmac, hmac('AWS4' + secret, day))
    return hmac(key, ['AWS4-HMAC-SHA256', req.headers['x-amz-date'], scope,
        sha(text)].join('\n')).toString('hex') === signature
}

// ---- the shim ----

function failure(status, type, message, more) {
    return { status,
        text: JSON.stringify({ __type: type, message, ...more }) }
}

// Asked once for each request.
function isTrouble(target) {
    if (trouble.only && trouble.only !== target) return false
    if (!trouble.after) return true
    trouble.after--
    return false
}

async function decide(req, target, raw, troubled) {
    if (trouble.fail > 0 && troubled) {
        trouble.fail--
        return failure(trouble.status || 400,
            'com.amazonaws.dynamodb.v20120810#' + trouble.type, 'as told')
    }
    if (plain) return forward(target, raw)
    if (!isSigned(req, raw))
        return failure(400, 'com.amazon.coral.service' +
            '#InvalidSignatureException', 'that is not signed by the key')
    const body = JSON.parse(raw)
    if (target === 'TransactWriteItems') return alone(() => transact(body))
    if (['UpdateItem', 'PutItem', 'DeleteItem'].includes(target))
        return alone(() => withOld(target, body, raw))
    return forward(target, raw)
}

const later = ms => new Promise(resolve => setTimeout(resolve, ms))

async function serve(req, res, raw) {
    const target = String(req.headers['x-amz-target']).split('.')[1]
    if (!raw.includes('#nodes')) { // how daemons count each other
        counts.asked++
        counts.by[target] = (counts.by[target] || 0) + 1
    }
    // Looking for journals is no part of any request.
    if ('serve' in trouble && target !== 'Query' && trouble.serve-- <= 0) {
        counts.stalled++
        return
    }
    const troubled = isTrouble(target)
    const answer = await decide(req, target, raw, troubled)
    if (trouble.hold && troubled) await later(trouble.hold)
    if (trouble.lose > 0 && troubled) {
        trouble.lose--
        req.socket.destroy()
        return
    }
    res.writeHead(answer.status, {
        'content-type': 'application/x-amz-json-1.0',
        'content-length': Buffer.byteLength(answer.text),
        date: new Date(Date.now() + (trouble.date || 0) * 1000).toUTCString()
    })
    res.end(answer.text)
}

async function flush() {
    for (;;) {
        const { json } = await ask('Scan', { TableName: table })
        if (!json.Items.length) return
        for (const { userId, dataType } of json.Items)
            await ask('DeleteItem',
                { TableName: table, Key: { userId, dataType } })
    }
}

async function command(req, res, raw) {
    if (req.method === 'POST') trouble = JSON.parse(raw)
    if (trouble.flush) await flush()
    const text = JSON.stringify(counts)
    if (req.method === 'POST') counts = { asked: 0, by: {}, stalled: 0 }
    res.writeHead(200, { 'content-length': Buffer.byteLength(text) })
    res.end(text)
}

const shim = http.createServer({ keepAliveTimeout: 60000 }, (req, res) => {
    const parts = []
    req.on('data', part => parts.push(part))
    req.on('end', () => {
        const raw = Buffer.concat(parts).toString()
        if (req.url === '/_shim') command(req, res, raw)
        else serve(req, res, raw).catch(err => {
            console.error(err)
            res.destroy()
        })
    })
})

async function start() {
    const server = dynalite({ createTableMs: 0, deleteTableMs: 0 })
    await new Promise(done => server.listen(0, '127.0.0.1', done))
    inner = server.address().port
    await ask('CreateTable', {
        TableName: table, BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [
            { AttributeName: 'userId', AttributeType: 'S' },
            { AttributeName: 'dataType', AttributeType: 'S' }],
        KeySchema: [{ AttributeName: 'userId', KeyType: 'HASH' },
            { AttributeName: 'dataType', KeyType: 'RANGE' }]
    })
    await new Promise(done => shim.listen(Number(option('--port', 0)),
        '127.0.0.1', done))
    console.log(shim.address().port)
    if (!argv.includes('--stay'))
        process.stdin.on('end', () => process.exit(0)).resume()
}
start()
