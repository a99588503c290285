// httpdate.js -- instants as HTTP writes them (RFC 9110, 5.6.7).
//
// Date.parse() is no help: it reads the form of asctime() in the local zone,
// guesses the century of RFC 850, and takes much that is no date.

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep",
                "Oct", "Nov", "Dec"];
const DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)";
const LONG_DAY = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day";
const MONTH = `(?<month>${MONTHS.join("|")})`;
const TIME = "(?<hour>\\d\\d):(?<minute>\\d\\d):(?<second>\\d\\d)";

const FORMS = [
    `${DAY}, (?<day>\\d\\d) ${MONTH} (?<year>\\d{4}) ${TIME} GMT`,
    `${LONG_DAY}, (?<day>\\d\\d)-${MONTH}-(?<short>\\d\\d) ${TIME} GMT`,
    `${DAY} ${MONTH} (?<day>\\d\\d| \\d) ${TIME} (?<year>\\d{4})`,
].map((form) => new RegExp(`^${form}$`));

// The year that ends in these two digits: up to 50 years from now it lies
// ahead, and behind if that would be more.
function wholeYear(two, now) {
    const year = new Date(now).getUTCFullYear();
    const near = year - year % 100 + two;

    if (near > year + 50)
        return near - 100;
    return near + 100 <= year + 50 ? near + 100 : near;
}

// Days of a month; Date.UTC() would take the years 0 to 99 for others.
function daysIn(year, month) {
    const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);

    return [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month];
}

/** Milliseconds since 1970, or null if the text is no date of HTTP. */
export function readHttpDate(text, now) {
    const form = FORMS.find((one) => one.test(text));

    if (!form)
        return null;

    const { year, short, month, day, hour, minute, second } =
        form.exec(text).groups;
    const y = short ? wholeYear(Number(short), now) : Number(year);
    const m = MONTHS.indexOf(month);
    const d = Number(day);

    if (d < 1 || d > daysIn(y, m) || hour > 23 || minute > 59 || second > 60)
        return null;
    return y < 1970 ? 0 : Date.UTC(y, m, d, hour, minute, second);
}
