// httpdate.js -- dates in HTTP headers (RFC 9110, 5.6.7).
//
// Date.parse() is not suitable: it reads the asctime() format in the local
// zone, guesses the century of RFC 850 dates, and accepts many texts that are
// not dates.

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

// The year that ends in these two digits and is at most 50 years in the future.
function wholeYear(two, now) {
    const year = new Date(now).getUTCFullYear();
    const near = year - year % 100 + two;

    if (near > year + 50)
        return near - 100;
    return near + 100 <= year + 50 ? near + 100 : near;
}

// Days of a month. Date.UTC() maps the years 0 to 99 to other years.
function daysIn(year, month) {
    const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);

    return [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month];
}

/** Milliseconds since 1970, or null if the text is not an HTTP date. */
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
